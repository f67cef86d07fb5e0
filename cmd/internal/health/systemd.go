package health

import (
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
)

// NotifyReady tells systemd that the service has started (sd_notify(3)). Without
// systemd it does nothing.
func NotifyReady(log *slog.Logger) { notify(log, daemon.SdNotifyReady) }

// NotifyStopping tells systemd that the service is shutting down.
func NotifyStopping(log *slog.Logger) { notify(log, daemon.SdNotifyStopping) }

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd not notified", "state", state, "error", err)
	}
}

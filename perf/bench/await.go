package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

var (
	errEnded  = errors.New("the process has ended")
	errSilent = errors.New("no answer")
)

// await looks until check finds nothing to complain of; its last complaint is
// returned when the time is over, or waiting cannot help.
func await(ctx context.Context, limit time.Duration, check func() error) error {
	for deadline := time.Now().Add(limit); ; {
		err := check()
		switch {
		case err == nil || errors.Is(err, errEnded):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("gave up after %s: %w", limit, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func lastLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

var grantedField = regexp.MustCompile(`msg="way on the wire".* granted=("[^"]*"|\S+)`)

// granted returns what the daemon's log says it got on the wire by.
func granted(file string) string {
	b, _ := os.ReadFile(file) // unreadable: unknown
	m := grantedField.FindSubmatch(b)
	if m == nil {
		return "unknown"
	}
	return strings.Trim(string(m[1]), `"`)
}

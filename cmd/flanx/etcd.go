package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flanx/control/embedetcd"
)

// etcdFlags are those of "flanx etcd".
type etcdFlags struct {
	listen, dir, ready string
	puts               []string
}

// newEtcd is "flanx etcd": the demo runs it as a process of its own, for the
// server must live in the demo's network, and longer than a demo that is kept.
func newEtcd() *cobra.Command {
	var f etcdFlags
	cmd := &cobra.Command{
		Use:    "etcd --listen http://ADDRESS:PORT",
		Short:  "Run the embedded etcd until a signal comes (for demos: it does not sync its data to disk)",
		Hidden: true,
		Args:   noArguments,
		RunE:   func(cmd *cobra.Command, _ []string) error { return f.serve(cmd.Context()) },
	}
	cmd.Flags().StringVar(&f.listen, "listen", "", "`URL` for clients")
	cmd.Flags().StringVar(&f.dir, "dir", "", "keep data in this folder (default: one that goes with the server)")
	cmd.Flags().StringVar(&f.ready, "ready", "", "make this file once everything is in place")
	cmd.Flags().StringArrayVar(&f.puts, "put", nil, "`KEY=VALUE` to write first; may be repeated")
	return cmd
}

func (f etcdFlags) serve(ctx context.Context) (err error) {
	if f.listen == "" {
		return fmt.Errorf("%w: --listen is missing", errUsage)
	}
	for _, pair := range f.puts {
		if key, _, ok := strings.Cut(pair, "="); !ok || key == "" {
			return fmt.Errorf("%w: --put %q is not KEY=VALUE", errUsage, pair)
		}
	}
	server, err := embedetcd.Start(ctx, embedetcd.Config{Listen: f.listen, Dir: f.dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	for _, pair := range f.puts {
		key, value, _ := strings.Cut(pair, "=")
		if err := put(ctx, server.URL(), key, value); err != nil {
			return err
		}
	}
	if f.ready != "" {
		if err := os.WriteFile(f.ready, nil, 0o644); err != nil {
			return fmt.Errorf("say that etcd is ready: %w", err)
		}
	}
	<-ctx.Done()
	return nil
}

// putWait bounds one write to a server that has just said it is ready.
const putWait = 10 * time.Second

// put writes a key through etcd's HTTP gateway (POST /v3/kv/put), where []byte
// is base64 as in Go's JSON.
func put(ctx context.Context, url, key, value string) error {
	ctx, cancel := context.WithTimeout(ctx, putWait)
	defer cancel()
	body, err := json.Marshal(struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	}{[]byte(key), []byte(value)})
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v3/kv/put", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // whatever there is
		return fmt.Errorf("put %s: etcd answers %s: %s", key, resp.Status, answer)
	}
	return nil
}

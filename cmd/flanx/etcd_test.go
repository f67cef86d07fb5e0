package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestEtcdServesWhatWasPut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ready := filepath.Join(dir, "ready")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int)
	var out bytes.Buffer
	go func() {
		done <- run(ctx, []string{
			"etcd", "--listen", url, "--dir", filepath.Join(dir, "data"), "--ready", ready,
			"--put", `/a/config={"Network":"10.0.0.0/8","x":"y=z"}`, "--put", "/b=",
		}, &out, &out)
	}()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %s", &out)
		}
	}
	for key, want := range map[string]string{"/a/config": `{"Network":"10.0.0.0/8","x":"y=z"}`, "/b": ""} {
		if got := get(t, url, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit status %d: %s", code, &out)
	}
}

// get reads a key by etcd's HTTP gateway.
func get(t *testing.T, url, key string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(key))})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"/v3/kv/range", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Kvs []struct{ Value []byte } }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Kvs) != 1 {
		t.Fatalf("get %s: %v, %v", key, answer, err)
	}
	return string(answer.Kvs[0].Value)
}

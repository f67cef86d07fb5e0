package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// limit bounds the whole trial inside the guest, whose clock runs slowly.
const limit = 4 * time.Minute

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "zerocopy is the init of a guest: run perf/zerocopy/run.sh")
		os.Exit(2)
	}
	err := boot()
	defer powerOff()
	if err != nil {
		fmt.Printf("FAIL boot: %v\n0 passed, 1 failed\n", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmdline, _ := os.ReadFile("/proc/cmdline")
	t := &trial{ctx: ctx}
	t.run(strings.Contains(string(cmdline), "flanx.expect=refusal"))
	fmt.Printf("%d passed, %d failed\n", t.passed, t.failed)
}

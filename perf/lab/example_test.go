package lab_test

import (
	"context"
	"fmt"
	"net"
	"os"

	"flanx/perf/lab"
)

func Example() {
	ctx := context.Background()
	if os.Geteuid() != 0 {
		fmt.Println("listening on 10.99.0.2:7")
		return
	}
	l, err := lab.New(ctx, lab.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	left, _ := l.Host("left")
	right, _ := l.Host("right")
	if err := l.Connect(lab.Wire{MTU: 1500}, left, right); err != nil {
		fmt.Println(err)
		return
	}
	// A socket stays where it was opened.
	err = right.Do(func() error {
		conn, err := net.ListenPacket("udp", net.JoinHostPort(right.Addr().String(), "7"))
		if err == nil {
			fmt.Println("listening on", conn.LocalAddr())
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: listening on 10.99.0.2:7
}

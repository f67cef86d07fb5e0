package tun_test

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// refuseMerged makes writev of more than two pieces fail with errno on the
// calling thread, for good: a kernel that takes packets but no merged ones. The
// thread must end with its goroutine.
func refuseMerged(t *testing.T, errno unix.Errno) {
	t.Helper()
	runtime.LockOSThread()             // never unlocked
	const number, iovcnt = 0, 16 + 2*8 // offsets in struct seccomp_data (linux/seccomp.h)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_WRITEV, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: iovcnt},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: 2, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := installFilter(filter); err != nil {
		t.Fatalf("install seccomp filter: %v", err)
	}
}

// TestKernelRefusesMergedPackets has the kernel refuse what is merged (T5), and
// wants every packet to arrive all the same. Only EINVAL, which some kernels
// answer to all such packets, ends the merging, and only of that kind.
func TestKernelRefusesMergedPackets(t *testing.T) {
	const n = 10
	for name, tt := range map[string]struct {
		errno      unix.Errno
		udp        bool
		then       int // writes for the next run of that kind once the kernel takes them again
		otherWrite int // and of the other kind
	}{
		"EINVAL on TCP": {unix.EINVAL, false, n, 1},
		"EINVAL on UDP": {unix.EINVAL, true, n, 1},
		"ENOMEM on TCP": {unix.ENOMEM, false, 1, 1},
		"EAGAIN on UDP": {unix.EAGAIN, true, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			port, kernel := newFake(t)
			pool := newPool(t, 64, packet.FrameSize2K)
			b := packet.NewBatch(pool, 64)
			send := func(udp bool) (in [][]byte) {
				for k := range n {
					in = append(in, stream(spec{udp: udp}, k, 100).build())
					load(t, b, in[k])
				}
				if err := port.Send(b); err != nil {
					t.Errorf("Send: %v", err)
				}
				return in
			}
			var in [][]byte
			done := make(chan struct{})
			go func() { // on a thread of its own, which ends with the filter
				defer close(done)
				refuseMerged(t, tt.errno)
				in = send(tt.udp)
			}()
			<-done
			writes := kernel.taken(t)
			if len(writes) != n || b.Drops()[packet.TunWriteFailed] != 0 {
				t.Errorf("%d writes, %d drops; want %d and none", len(writes), b.Drops()[packet.TunWriteFailed], n)
			}
			sameFlows(t, cutAgain(t, writes), in)

			send(tt.udp)
			if got := len(kernel.taken(t)); got != tt.then {
				t.Errorf("afterwards %d writes, want %d", got, tt.then)
			}
			send(!tt.udp)
			if got := len(kernel.taken(t)); got != tt.otherWrite {
				t.Errorf("of the other kind %d writes, want %d", got, tt.otherWrite)
			}
			checkFrames(t, pool)
		})
	}
}

package porttest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"flanx/dataplane/memport"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
)

// faulty are the faults that the suite must see, with a case that sees it.
var faulty = map[string]struct {
	faults memport.Faults // of the port under test
	far    memport.Faults // of the far end
	seen   string
}{
	"refuses":          {faults: memport.Faults{Refuse: 7}, seen: "SendInOrder"},
	"loses":            {faults: memport.Faults{Lose: 100}, seen: "SendInOrder"},
	"repeats":          {faults: memport.Faults{Repeat: 100}, seen: "SendInOrder"},
	"swaps":            {faults: memport.Faults{Swap: 3}, seen: "SendInOrder"},
	"damages":          {faults: memport.Faults{Damage: 100}, seen: "SendInOrder"},
	"never has room":   {faults: memport.Faults{Full: true}, seen: "SendEverySize"},
	"is broken":        {faults: memport.Faults{Err: packet.ErrPortGone}, seen: "RecvIdle"},
	"loses inward":     {far: memport.Faults{Lose: 100}, seen: "RecvInOrder"},
	"repeats inward":   {far: memport.Faults{Repeat: 10}, seen: "RecvInOrder"},
	"swaps inward":     {far: memport.Faults{Swap: 3}, seen: "RecvInOrder"},
	"damages inward":   {far: memport.Faults{Damage: 100}, seen: "RecvInOrder"},
	"is not flushable": {far: memport.Faults{Lazy: true}, seen: "RecvReadable"},
}

// batchFar is a far end that sends through a port's Send, so through its faults.
type batchFar struct {
	port  *memport.Port
	batch *packet.Batch
}

func (f batchFar) Send(pkt []byte) error {
	i, space, ok := f.batch.Extend()
	if !ok {
		return errors.New("far end has no frame")
	}
	f.batch.Resize(i, copy(space, pkt))
	return f.port.Send(f.batch)
}

func (f batchFar) Recv(buf []byte, timeout time.Duration) (int, error) {
	for deadline := time.Now().Add(min(timeout, 50*time.Millisecond)); ; time.Sleep(10 * time.Microsecond) {
		n, err := f.port.Read(buf)
		if !errors.Is(err, memport.ErrEmpty) {
			return n, err
		}
		if time.Now().After(deadline) {
			return 0, porttest.ErrTimeout
		}
	}
}

func openFaulty(t *testing.T, faults, far memport.Faults) *porttest.Pair {
	t.Helper()
	pool, err := packet.NewPool(256, packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	a, b, err := memport.Pair(memport.Config{})
	if err != nil {
		t.Fatal(err)
	}
	farPool, err := packet.NewPool(1, packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(a.Close(), b.Close(), pool.Close(), farPool.Close()) })
	a.SetFaults(faults)
	b.SetFaults(far)
	return &porttest.Pair{
		Port: a, Far: batchFar{b, packet.NewBatch(farPool, 1)}, Pool: pool,
		Min: 8, Max: 1792, Block: func() {}, Unblock: func() {},
	}
}

// childEnv names the fault that TestFaultyChild runs the suite with.
const childEnv = "PORTTEST_FAULT"

// TestFaultyChild is run by TestSuiteSeesFaults in a process of its own, where
// it is expected to fail.
func TestFaultyChild(t *testing.T) {
	name, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	f := faulty[name]
	for _, c := range porttest.Cases() {
		if c.Name == f.seen || f.seen == "" {
			t.Run(c.Name, func(t *testing.T) {
				porttest.RunCase(t, c, openFaulty(t, f.faults, f.far))
			})
		}
	}
}

// TestSuiteSeesFaults gives the suite ports that are wrong, and wants it to say so.
func TestSuiteSeesFaults(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range faulty {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestFaultyChild$", "-test.v")
			cmd.Env = append(os.Environ(), childEnv+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestFaultyChild/"+f.seen) {
				t.Errorf("%s does not see a port that %s: %v\n%s", f.seen, name, err, out)
			}
		})
	}
}

// TestSuitePasses gives it one that is right, through the same far end.
func TestSuitePasses(t *testing.T) {
	porttest.Run(t, func(t *testing.T) *porttest.Pair {
		return openFaulty(t, memport.Faults{}, memport.Faults{})
	})
}

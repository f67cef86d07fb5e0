package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Spec says which program to start, and how.
type Spec struct {
	Path   string   // looked up in PATH if it has no slash
	Args   []string // without the program's name
	Env    []string // added to our own environment
	Stdin  io.Reader
	Stdout io.Writer // nil: discarded; a lab that is left needs an *os.File
	Stderr io.Writer
}

// Process is a program that runs inside a host, in a process group of its own.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // after done
}

// outputGrace is how long we wait for output that a killed program's children
// still hold open.
const outputGrace = time.Second

// Start runs a program inside the host. Its process group is killed when ctx
// ends, when the lab is closed, and, unless the lab has a name, when we die.
func (h *Host) Start(ctx context.Context, s Spec) (*Process, error) {
	cmd := exec.CommandContext(ctx, s.Path, s.Args...)
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Stdin, s.Stdout, s.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !h.lab.kept {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	// exec calls Cancel only while the process is not reaped: the group's
	// number is still its own.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputGrace
	if err := h.spawner.do(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s on host %s: %w", s.Path, h.name, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id, as seen from everywhere.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end. Like exec.Cmd's Wait it returns an *exec.ExitError
// when the program ended otherwise than by exit status 0.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal to the program itself, not to its children. After the
// end it returns os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop asks the program to end with SIGTERM, kills it after grace, and waits.
// It returns how the program ended, with context.DeadlineExceeded if it had to
// be killed.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", p.PID(), err)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(grace):
	}
	_ = p.Signal(syscall.SIGKILL) // gone already is as good
	<-p.done
	return fmt.Errorf("stop process %d: not ended %s after SIGTERM: %w", p.PID(), grace, context.DeadlineExceeded)
}

// Output runs a program inside the host to its end and returns its standard
// output. The error holds what it said on standard error.
func (h *Host) Output(ctx context.Context, path string, args ...string) ([]byte, error) {
	var out, complaint bytes.Buffer
	p, err := h.Start(ctx, Spec{Path: path, Args: args, Stdout: &out, Stderr: &complaint})
	if err != nil {
		return nil, err
	}
	if err := p.Wait(); err != nil {
		return out.Bytes(), fmt.Errorf("run %s on host %s: %w: %s", path, h.name, err, strings.TrimSpace(complaint.String()))
	}
	return out.Bytes(), nil
}

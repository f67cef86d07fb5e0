package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is USER_HZ, what /proc counts CPU time in: 100 on every Linux we run on.
const tick = time.Second / 100

// cpu is time used so far.
type cpu struct{ system, daemons time.Duration }

// readCPU adds up what the machine and the processes have used (proc_stat(5),
// proc_pid_stat(5)). A process that is gone counts as 0.
func readCPU(pids []int) cpu {
	var c cpu
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		c.system = parseSystem(string(b))
	}
	for _, pid := range pids {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			c.daemons += parseProcess(string(b))
		}
	}
	return c
}

func (c cpu) since(before cpu) cpu {
	return cpu{c.system - before.system, max(0, c.daemons-before.daemons)}
}

// parseSystem adds user, nice, system, irq and softirq: neither idle, nor iowait,
// nor what the hypervisor took.
func parseSystem(s string) time.Duration {
	line, _, _ := strings.Cut(s, "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		return 0
	}
	return ticks(f[1], f[2], f[3], f[6], f[7])
}

// parseProcess adds utime and stime, the 14th and 15th fields; the second, the
// program's name, may hold blanks and brackets.
func parseProcess(s string) time.Duration {
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 13 {
		return 0
	}
	return ticks(f[11], f[12])
}

func ticks(fields ...string) time.Duration {
	var sum time.Duration
	for _, f := range fields {
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n) * tick
	}
	return sum
}

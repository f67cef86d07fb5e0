package udpsock

import "testing"

// FuzzSocketOn reads any line of /proc/net/udp.
func FuzzSocketOn(f *testing.F) {
	const header = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops"
	const line = " 5668: 00000000:2118 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 26050 2 00000000d05bcc00 0"
	if _, ok := socketOn(header, 0); ok {
		f.Error("the header is taken for a socket")
	}
	if inode, ok := socketOn(line, 8472); !ok || inode != "26050" {
		f.Errorf("socket %q, %v; want 26050", inode, ok)
	}
	if _, ok := socketOn(line, 8473); ok {
		f.Error("a socket on another port is taken")
	}
	f.Add(header, uint16(0))
	f.Add(line, uint16(8472))
	f.Fuzz(func(t *testing.T, line string, port uint16) {
		if inode, ok := socketOn(line, port); ok && inode == "" {
			t.Error("a socket without inode")
		}
	})
}

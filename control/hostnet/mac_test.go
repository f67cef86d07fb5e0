package hostnet

import "testing"

func TestRandomMAC(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		mac := RandomMAC()
		if len(mac) != 6 || mac[0]&1 != 0 || mac[0]&2 == 0 {
			t.Fatalf("MAC %v is not a locally administered unicast one", mac)
		}
		if seen[mac.String()] {
			t.Fatalf("MAC %v twice", mac)
		}
		seen[mac.String()] = true
	}
}

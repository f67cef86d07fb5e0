package hostnet

import (
	"errors"
	"strings"
	"testing"
)

func TestOverlayMTU(t *testing.T) {
	tests := []struct {
		name             string
		backend          string
		link, configured int
		v4, v6           bool
		want             MTU
		err              string
	}{
		{name: "udp", backend: "udp", link: 1500, v4: true, want: MTU{V4: 1472, Underlay: 1500}},
		{name: "vxlan", backend: "vxlan", link: 1500, v4: true, want: MTU{V4: 1450, Underlay: 1500}},
		{name: "vxlan, dual stack", backend: "vxlan", link: 1500, v4: true, v6: true, want: MTU{V4: 1450, V6: 1430, Underlay: 1500}},
		{name: "vxlan, IPv6", backend: "vxlan", link: 1500, v6: true, want: MTU{V6: 1430, Underlay: 1500}},
		{name: "vxlan, jumbo", backend: "vxlan", link: 9000, v4: true, want: MTU{V4: 8950, Underlay: 9000}},
		{name: "vxlan, small", backend: "vxlan", link: 1400, v4: true, want: MTU{V4: 1350, Underlay: 1400}},
		{name: "alloc is not reduced", backend: "alloc", link: 1500, v4: true, v6: true, want: MTU{V4: 1500, V6: 1500, Underlay: 1500}},
		{name: "configured is the underlay's", backend: "vxlan", link: 9000, configured: 1500, v4: true, want: MTU{V4: 1450, Underlay: 1500}},
		{
			name: "configured above the interface's", backend: "vxlan", link: 1500, configured: 9000, v4: true,
			want: MTU{V4: 1450, Underlay: 1500, Clamped: true},
		},
		{name: "smallest for IPv4", backend: "udp", link: 96, v4: true, want: MTU{V4: 68, Underlay: 96}},
		{name: "too small for IPv4", backend: "udp", link: 95, v4: true, err: "IPv4 needs 96 bytes on the underlay, it has 95"},
		{name: "smallest for IPv6", backend: "vxlan", link: 1350, v4: true, v6: true, want: MTU{V4: 1300, V6: 1280, Underlay: 1350}},
		{name: "too small for IPv6", backend: "vxlan", link: 1349, v4: true, v6: true, err: "IPv6 needs 1350 bytes"},
		{name: "configured too small", backend: "vxlan", link: 1500, configured: 100, v4: true, err: "IPv4 needs 118 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := OverlayMTU(test.backend, test.link, test.configured, test.v4, test.v6)
			if test.err != "" {
				if !errors.Is(err, ErrMTU) || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one that says %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if link := max(test.want.V4, test.want.V6); got.Link() != link {
				t.Errorf("link MTU %d, want %d", got.Link(), link)
			}
		})
	}
}

package controltest

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy is a TCP line to a server that can be cut, frozen, and led elsewhere.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	heal   *sync.Cond
	target string
	cut    bool
	frozen bool
	conns  map[net.Conn]bool
}

// NewProxy listens on loopback in front of the server at a URL, until the test
// ends.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, conns: map[net.Conn]bool{}}
	p.heal = sync.NewCond(&p.mu)
	p.Lead(target)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// URL is the endpoint for clients.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Lead sends new connections to another server.
func (p *Proxy) Lead(target string) {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = u.Host
}

// Cut closes every connection, and new ones at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.frozen = true, false
	p.drop()
}

// Freeze passes nothing on in either direction and closes nothing, as a network
// that loses every packet.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

// Heal ends Cut and Freeze; what was frozen goes on.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.frozen = false, false
	p.heal.Broadcast()
}

// drop closes the connections; mu is held.
func (p *Proxy) drop() {
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
	p.heal.Broadcast()
}

func (p *Proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(near) })
	}
}

func (p *Proxy) serve(near net.Conn) {
	defer near.Close()
	p.mu.Lock()
	target, cut := p.target, p.cut
	p.mu.Unlock()
	if cut {
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	if !p.keep(near, far) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.copy(far, near) })
	wg.Go(func() { p.copy(near, far) })
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, near)
	delete(p.conns, far)
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

// copy passes bytes on, and ends both directions when one ends.
func (p *Proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.frozen {
			p.heal.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return // io.EOF or a closed connection: either way the line is over
		}
	}
}

package limit

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

func address(n int) netip.Addr { return from(Standard, n).Address }

// wantUse demands what a pool holds; at zero, also that it remembers no caller.
func (p *Pool) wantUse(t *testing.T, want int64) {
	t.Helper()
	if held, _ := p.Use(); held != want {
		t.Errorf("%d held, want %d", held, want)
	}
	if want == 0 && len(p.shares) != 0 {
		t.Errorf("%d shares are remembered of a pool of which nothing is held", len(p.shares))
	}
}

// One address gets its share and no more, whatever credential comes with it; so does one company,
// from all addresses together; and the reserved part is only for callers whom the service knows.
func TestPoolRefuses(t *testing.T) {
	t.Parallel()
	stranger := func(n int) Holder { return Holder{Address: address(n)} }
	known := func(n int, company int64) Holder { return Holder{Address: address(n), Company: company, Known: true} }
	for name, tt := range map[string]struct {
		holds []Holder
		asks  Holder
		want  error
	}{
		"an address within its share":                  {[]Holder{stranger(1), stranger(1)}, stranger(1), nil},
		"an address over its share":                    {[]Holder{stranger(1), stranger(1), stranger(1)}, stranger(1), ErrShare},
		"another address":                              {[]Holder{stranger(1), stranger(1), stranger(1)}, stranger(2), nil},
		"an address with many companies":               {[]Holder{known(1, 1), known(1, 2), known(1, 3)}, known(1, 4), ErrShare},
		"a company from many addresses":                {[]Holder{known(1, 1), known(2, 1), known(3, 1)}, known(4, 1), ErrShare},
		"a stranger, when only what is kept is free":   {[]Holder{stranger(1), stranger(2), stranger(3), stranger(4), stranger(5), stranger(6)}, stranger(7), ErrFull},
		"a known one then":                             {[]Holder{stranger(1), stranger(2), stranger(3), stranger(4), stranger(5), stranger(6)}, known(7, 1), nil},
		"a known one, when all is taken":               {[]Holder{known(1, 1), known(1, 1), known(2, 2), known(2, 2), known(3, 3), known(3, 3), known(4, 4), known(4, 4)}, known(7, 7), ErrFull},
		"one who speaks for many, over a share":        {[]Holder{{}, {}, {}, {}}, Holder{}, nil},
		"one who speaks for many, beyond what is kept": {[]Holder{{}, {}, {}, {}, {}, {}}, Holder{}, ErrFull},
	} {
		p := NewPool(Size{Most: 8, Share: 3, Reserved: 2})
		for _, h := range tt.holds {
			if err := p.Acquire(1, h); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := p.Acquire(1, tt.asks); !errors.Is(err, tt.want) || tt.want == ErrFull && errors.Is(err, ErrShare) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		} else if err == nil {
			p.Release(1, tt.asks)
		}
		if _, refused := p.Use(); (refused == 1) != (tt.want != nil) {
			t.Errorf("%s: %d refusals are counted", name, refused)
		}
		p.wantUse(t, int64(len(tt.holds))) // a refusal uses nothing
		for _, h := range tt.holds {
			p.Release(1, h)
		}
		p.wantUse(t, 0)
	}
}

func TestPoolWithoutBound(t *testing.T) {
	t.Parallel()
	p := NewPool(Size{})
	for range 1000 {
		if err := p.Acquire(1<<40, Holder{Address: address(1)}); err != nil {
			t.Fatal(err)
		}
	}
	p.wantUse(t, 1000<<40)
}

// However many acquire and release at once, the limits hold, and in the end nothing is held.
func TestPoolBoundsHoldConcurrently(t *testing.T) {
	t.Parallel()
	p := NewPool(Size{Most: 100, Share: 40, Reserved: 20})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			h := Holder{Address: address(n % 3), Company: int64(n % 2), Known: n%2 == 1}
			for range 2000 {
				part := rnd.Int64N(30)
				if p.Acquire(part, h) != nil {
					continue
				}
				if held, _ := p.Use(); held > 100 {
					t.Errorf("%d are held of 100", held)
				}
				p.Release(part, h)
			}
		})
	}
	wg.Wait()
	p.wantUse(t, 0)
}

func TestDefaultBudgets(t *testing.T) {
	t.Parallel()
	for _, maxBody := range []int64{1 << 10, 4 << 20, 64 << 20} {
		b := Defaults(maxBody)
		for name, s := range map[string]Size{
			"connections": b.Connections, "streams": b.Streams, "bodies": b.Bodies,
			"one stream": Streams(1), "few connections": Connections(10, 256), "room for two bodies": Bodies(2*maxBody, maxBody),
		} {
			if s.Most < 1 || s.Share < 1 || s.Share > s.Most || s.Reserved < 0 || s.Reserved >= s.Most {
				t.Errorf("%s: %+v", name, s)
			}
		}
		// An unauthenticated caller and one with a credential can both send a body of the largest
		// size.
		for _, size := range []Size{b.Bodies, Bodies(2*maxBody, maxBody)} {
			if size.Share < 2*maxBody || size.Most-size.Reserved < 2*maxBody {
				t.Errorf("no room for a body of %d bytes in %+v", maxBody, size)
			}
		}
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"2001:db8:1:2:ffff::":  "2001:db8:1:2::",
		"2001:db8:1:3:3:4:5:6": "2001:db8:1:3::",
		"2001:db8:1:3::1%eth0": "2001:db8:1:3::",
		"::1":                  "::",
	} {
		if got := Network(netip.MustParseAddr(in)); got != netip.MustParseAddr(want) {
			t.Errorf("Network(%s) = %s, want %s", in, got, want)
		}
	}
	if Network(netip.Addr{}).IsValid() {
		t.Error("no address has become one")
	}
}

func TestSpoolSharedByProcesses(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for in, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "10.1.2.3": true, "::ffff:10.1.2.3": true,
		"192.0.2.1": false, "2001:db8::1": false,
	} {
		if got := Shared(netip.MustParseAddr(in), proxies); got != want {
			t.Errorf("Shared(%s) = %v", in, got)
		}
	}
	if Shared(netip.Addr{}, proxies) {
		t.Error("no address speaks for many")
	}
}

package tcpgate

import (
	"io"
	"net"
	"testing"
	"time"

	"weir"
	"weir/gate"
	"weir/throttle/quota"
)

// BenchmarkThroughput pushes bytes through a connection: straight to the upstream, through the gate, and through a gate
// that counts them.
func BenchmarkThroughput(b *testing.B) {
	upstream := serve(b, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c); _, _ = c.Write([]byte{1}) })
	push := func(b *testing.B, addr string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		piece := make([]byte, 256<<10)
		b.SetBytes(int64(len(piece)))
		for b.Loop() {
			if _, err := c.Write(piece); err != nil {
				b.Fatal(err)
			}
		}
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.ReadFull(c, piece[:1])
	}
	b.Run("direct", func(b *testing.B) { push(b, upstream) })
	b.Run("spliced", func(b *testing.B) { push(b, start(b, Options{Upstream: upstream}).addr) })
	b.Run("metered", func(b *testing.B) { push(b, start(b, Options{Upstream: upstream}, unlimited(b)).addr) })
}

func unlimited(b *testing.B) weir.Throttle {
	return newQuota(b, quota.Policy{Name: "traffic", Kind: quota.Volume, Limit: quota.Bytes(1 << 50),
		Period: weir.Period{Length: time.Hour}})
}

// BenchmarkRoundTrip sends a word there and back.
func BenchmarkRoundTrip(b *testing.B) {
	upstream := echo(b)
	trip := func(b *testing.B, addr string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		word := make([]byte, 64)
		for b.Loop() {
			if _, err := c.Write(word); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, word); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("direct", func(b *testing.B) { trip(b, upstream) })
	b.Run("spliced", func(b *testing.B) { trip(b, start(b, Options{Upstream: upstream}).addr) })
	b.Run("metered", func(b *testing.B) { trip(b, start(b, Options{Upstream: upstream}, unlimited(b)).addr) })
}

// BenchmarkConnections makes connections, one after the other, each for one word.
func BenchmarkConnections(b *testing.B) {
	upstream := echo(b)
	connect := func(b *testing.B, addr string) {
		for word := make([]byte, 1); b.Loop(); {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = c.Write(word)
			if _, err := io.ReadFull(c, word); err != nil {
				b.Fatal(err)
			}
			gate.Reset(c)
		}
	}
	b.Run("direct", func(b *testing.B) { connect(b, upstream) })
	b.Run("gate", func(b *testing.B) { connect(b, start(b, Options{Upstream: upstream}, unlimited(b)).addr) })
}

// BenchmarkPackets sends packets there and back.
func BenchmarkPackets(b *testing.B) {
	upstream := echoUDP(b)
	trip := func(b *testing.B, addr string) {
		c, err := net.Dial("udp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		b.ReportAllocs()
		for word := make([]byte, 64); b.Loop(); {
			if _, err := c.Write(word); err != nil {
				b.Fatal(err)
			}
			if _, err := c.Read(word); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("direct", func(b *testing.B) { trip(b, upstream) })
	b.Run("gate", func(b *testing.B) {
		trip(b, start(b, Options{Protocol: UDP, Upstream: upstream}, unlimited(b)).addr)
	})
}

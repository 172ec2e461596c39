package httpgate

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/gate"
)

// pipedStreams returns a connection for HTTP/2, and the client's end of it.
func pipedStreams(t *testing.T, progress time.Duration) (*streamConn, net.Conn) {
	s := &setup{opts: Options{Timeouts: Timeouts{Progress: weir.Duration(progress)}}}
	g := &Gate{Skeleton: gate.New(gate.Env{}, s, gate.Hooks[setup]{})}
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	g.Open.Add(1)
	return newStreamConn(newConn(g, pipeSocket{ours}, peerOf(pipeSocket{ours}))), theirs
}

// writing calls Write in the background.
func writing(c *streamConn, p []byte) <-chan error {
	done := make(chan error, 1)
	go func() {
		n, err := c.Write(p)
		if err == nil && n != len(p) {
			err = io.ErrShortWrite
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

func isDone(done <-chan error) bool { return len(done) > 0 }

// TestStreamsGather: while the client takes nothing, as many bytes as may gather do, and one more waits. What was
// gathered comes in one piece, in order.
func TestStreamsGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := pipedStreams(t, time.Hour)
		want := []byte("the first piece is being written")
		if err := <-writing(c, want); err != nil {
			t.Fatal(err)
		}
		for rest := gathered; rest > 0; {
			piece := bytes.Repeat([]byte{byte('a' + rest%26)}, min(rest, 100))
			rest -= len(piece)
			if done := writing(c, piece); !isDone(done) {
				t.Fatalf("%d bytes less than may gather, and a piece waits", rest)
			}
			want = append(want, piece...)
		}
		late := writing(c, []byte("!"))
		if isDone(late) {
			t.Fatal("more than may gather")
		}
		got := make([]byte, 1<<20)
		n, err := client.Read(got)
		if err != nil {
			t.Fatal(err)
		}
		m, err := client.Read(got[n:])
		if err != nil || m != gathered {
			t.Errorf("the second piece has %d bytes, %v", m, err)
		}
		synctest.Wait()
		if !isDone(late) {
			t.Error("there is room, and a piece waits")
		}
		k, err := client.Read(got[n+m:])
		if got = got[:n+m+k]; err != nil || !bytes.Equal(got, append(want, '!')) {
			t.Errorf("%q, %v", got, err)
		}
		synctest.Wait()
		if c.mu.Lock(); c.woken || c.sending || c.block != nil {
			t.Error("memory is kept while there is nothing to send")
		}
		c.mu.Unlock()
	})
}

// TestStreamsLarge: a piece that is too large to be gathered is written by itself, after what was gathered before.
func TestStreamsLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := pipedStreams(t, time.Hour)
		large := bytes.Repeat([]byte("x"), gathered+1)
		for _, p := range [][]byte{[]byte("one"), []byte("two")} {
			if err := <-writing(c, p); err != nil {
				t.Fatal(err)
			}
		}
		first := writing(c, large)
		second := writing(c, large)
		if isDone(first) || isDone(second) {
			t.Error("nobody has read it")
		}
		got := make([]byte, len("onetwo")+2*len(large))
		if _, err := io.ReadFull(client, got); err != nil || string(got[:6]) != "onetwo" ||
			!bytes.Equal(got[6:], append(large, large...)) {
			t.Errorf("%.20q, %v", got, err)
		}
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
	})
}

// TestStreamsClose: what was written before the end arrives, if the client takes it in a moment. Otherwise it is cut
// off, and a connection counts as long as it is open.
func TestStreamsClose(t *testing.T) {
	for name, reads := range map[string]bool{"who reads": true, "who does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, client := pipedStreams(t, time.Hour)
				for _, p := range []string{"last ", "words"} {
					if err := <-writing(c, []byte(p)); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(c.Close(), c.Close()); err != nil {
					t.Error(err)
				}
				if _, err := c.Write([]byte("too late")); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				if c.gate.Open.Load() != 1 {
					t.Error("closed before anything was sent")
				}
				if reads {
					if got, err := io.ReadAll(client); string(got) != "last words" || err != nil {
						t.Errorf("%q, %v", got, err)
					}
				} else {
					time.Sleep(drainTime)
				}
				synctest.Wait()
				if open := c.gate.Open.Load(); open != 0 {
					t.Errorf("%d are open", open)
				}
				_ = c.Close()
				if open := c.gate.Open.Load(); open != 0 {
					t.Errorf("closed twice: %d are open", open)
				}
			})
		})
	}
}

// TestStreamsUnread: a client that takes nothing for the progress timeout is cut off. Pieces that wait are told, and so
// are all later ones.
func TestStreamsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const progress = 8 * time.Second
		c, _ := pipedStreams(t, progress)
		if err := <-writing(c, []byte("taken by nobody")); err != nil {
			t.Fatal(err)
		}
		small, large := writing(c, make([]byte, gathered)), writing(c, make([]byte, gathered+1))
		if !isDone(small) || isDone(large) {
			t.Error("the small piece waits, or the large one does not")
		}
		began := time.Now()
		if err := <-large; !timedOut(err) {
			t.Error(err)
		}
		part := progress / progressParts
		if took := time.Since(began); took < progress-part || took > progress+2*part {
			t.Errorf("cut off after %v", took)
		}
		if _, err := c.Write([]byte("more")); !timedOut(err) {
			t.Error(err)
		}
		synctest.Wait()
		if open := c.gate.Open.Load(); open != 0 {
			t.Errorf("%d are open", open)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("it can be read from")
		}
	})
}

// TestStreamsRead: whatever pieces are asked for, everything comes once and in order, and then the end. What came with
// the preface comes first.
func TestStreamsRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ours, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := newStreamConn(newConn(new(Gate), ours.(socket), peerOf(ours.(socket))))
	defer ours.Close()
	want := make([]byte, 10*len(block{}))
	for i := range want {
		want[i] = byte(i ^ i>>8)
	}
	c.pending, c.wire.ahead = bytes.Clone(want[:30]), bytes.Clone(want[30:50])
	go func() {
		_, _ = client.Write(want[50:])
		_ = client.Close()
	}()
	var got []byte
	p := make([]byte, 2*len(block{}))
	for i := 0; ; i++ {
		size := []int{9, 100, len(block{}) - 1, 9, len(block{}), 1, len(p)}[i%7]
		n, err := c.Read(p[:size])
		got = append(got, p[:n]...)
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		if (c.room == nil) != (len(c.ahead) == 0) {
			t.Fatal("memory is kept while there is nothing in it")
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, not those %d", len(got), len(want))
	}
}

// FuzzStreams: whatever the sizes of the pieces and of what the client reads, all bytes arrive in order.
func FuzzStreams(f *testing.F) {
	sizes := []int{0, 1, 9, 100, gathered - 100, gathered - 1, gathered, gathered + 1, 3 * gathered}
	f.Add([]byte{3, 3, 4, 3, 3}, uint16(16<<10))
	f.Add([]byte{8, 1, 7, 6, 0, 5, 2}, uint16(9))
	f.Add([]byte{}, uint16(1))
	f.Fuzz(func(t *testing.T, pieces []byte, reads uint16) {
		if len(pieces) > 32 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			c, client := pipedStreams(t, time.Hour)
			var want []byte
			for i, p := range pieces {
				want = append(want, bytes.Repeat([]byte{byte('a' + i%26)}, sizes[int(p)%len(sizes)])...)
			}
			go func() {
				rest := want
				for _, p := range pieces {
					n := sizes[int(p)%len(sizes)]
					if _, err := c.Write(rest[:n]); err != nil {
						t.Error(err)
					}
					rest = rest[n:]
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
			var got []byte
			for part, err := make([]byte, max(1, int(reads))), error(nil); err == nil; {
				var n int
				n, err = client.Read(part)
				got = append(got, part[:n]...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrived of %d, or others", len(got), len(want))
			}
		})
	})
}

package hmackey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"testing"

	"weir/internal/needs"
)

// TestSum: it is HMAC-SHA256, for secrets and texts of any length: one block, several, and more than a Hash has room
// for.
func TestSum(t *testing.T) {
	all := make([]byte, 2*maxText)
	for i := range all {
		all[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{0, 1, 31, 32, 63, 64, 65, 200} {
		secret := bytes.Repeat([]byte{byte(n), 9}, n)[:n]
		k, plain := New(secret), hmac.New(sha256.New, secret)
		for length := range len(all) {
			plain.Reset()
			plain.Write(all[:length])
			if sum := k.Sum(all[:length]); !bytes.Equal(sum[:], plain.Sum(nil)) {
				t.Fatalf("a secret of %d, a text of %d: %x", n, length, sum)
			}
		}
	}
}

// TestBlock: a padded block gives the SHA-256 of the text, whatever was hashed before.
func TestBlock(t *testing.T) {
	h, k := NewHash(), New([]byte("secret"))
	for n := range 56 {
		text := bytes.Repeat([]byte{byte(n)}, n)
		b := h.Text()
		clear(b[:])
		copy(b[:], text)
		b[n] = 0x80
		binary.BigEndian.PutUint16(b[62:], uint16(8*n))
		if got, want := *h.Block(), sha256.Sum256(text); got != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
		k.SumWith(h, text)
	}
}

// TestTogether: goroutines share a key.
func TestTogether(t *testing.T) {
	k, want := New([]byte("secret")), New([]byte("secret")).Sum([]byte("text"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if k.Sum([]byte("text")) != want {
					t.Error("another sum")
				}
			}
		})
	}
	all.Wait()
}

// TestAllocates: signing allocates nothing.
func TestAllocates(t *testing.T) {
	needs.Unwatched(t)
	if needs.Watched {
		t.Skip("with the race detector more is allocated")
	}
	k, h, text := New([]byte("secret")), NewHash(), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { k.SumWith(h, text); h.Block() }); n != 0 {
		t.Errorf("%f allocations", n)
	}
}

func BenchmarkSum(b *testing.B) {
	k, text := New([]byte("secret")), make([]byte, 97)
	b.Run("hmac", func(b *testing.B) {
		h, sum := hmac.New(sha256.New, []byte("secret")), make([]byte, 0, sha256.Size)
		for b.Loop() {
			h.Reset()
			h.Write(text)
			sum = h.Sum(sum[:0])
		}
	})
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			k.Sum(text)
		}
	})
	b.Run("with", func(b *testing.B) {
		h := NewHash()
		for b.Loop() {
			k.SumWith(h, text)
		}
	})
}

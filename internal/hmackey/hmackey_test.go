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
			want := [sha256.Size]byte(plain.Sum(nil))
			for name, sum := range sums(k, all[:length]) {
				if sum != want {
					t.Fatalf("%s: a secret of %d, a text of %d: %x", name, n, length, sum)
				}
			}
		}
	}
}

// sums signs a text in all ways that this processor has.
func sums(k *Key, text []byte) map[string][sha256.Size]byte {
	h := NewHash()
	all := map[string][sha256.Size]byte{"pool": k.Sum(text), "with": k.SumWith(h, text), "beside": k.SumBeside(h, text)}
	if len(text) <= maxText {
		all["plain"] = k.plain(h, text)
	}
	return all
}

// padded writes a text of less than 56 bytes as one block.
func padded(b *[sha256.BlockSize]byte, text []byte) {
	clear(b[:])
	n := copy(b[:], text)
	b[n] = 0x80
	binary.BigEndian.PutUint16(b[sha256.BlockSize-2:], uint16(8*n))
}

// TestBlock: a padded block gives the SHA-256 of the text, whatever was hashed before.
func TestBlock(t *testing.T) {
	h, k := NewHash(), New([]byte("secret"))
	for n := range 56 {
		text := bytes.Repeat([]byte{byte(n)}, n)
		want := sha256.Sum256(text)
		padded(h.Text(), text)
		if got, plain := *h.Block(), *h.plainBlock(); got != want || plain != want {
			t.Errorf("%d bytes: %x and %x, want %x", n, got, plain, want)
		}
		padded(h.Text(), text)
		k.SumBeside(h, make([]byte, n*8)) // of one block to more than there is room for
		if got := *h.Block(); got != want {
			t.Errorf("%d bytes, beside a text of %d: %x, want %x", n, n*8, got, want)
		}
		// What was hashed beside a text is not taken for what is written afterwards.
		padded(h.Text(), text[n/2:])
		if got, want := *h.Block(), sha256.Sum256(text[n/2:]); got != want {
			t.Errorf("%d bytes: %x, want %x", n-n/2, got, want)
		}
		k.SumWith(h, text)
	}
}

// FuzzSum: the ways to sign agree with the standard library, whatever the secret and the text, and so do those to hash
// a block, beside it and alone.
func FuzzSum(f *testing.F) {
	f.Add([]byte("secret"), []byte("text"), []byte("beside"))
	f.Add(make([]byte, 64), make([]byte, maxText), make([]byte, 55))
	f.Add(make([]byte, 65), make([]byte, maxText+1), []byte{})
	f.Fuzz(func(t *testing.T, secret, text, block []byte) {
		plain := hmac.New(sha256.New, secret)
		plain.Write(text)
		want := [sha256.Size]byte(plain.Sum(nil))
		k := New(secret)
		for name, sum := range sums(k, text) {
			if sum != want {
				t.Fatalf("%s: %x, want %x", name, sum, want)
			}
		}
		block = block[:min(len(block), 55)]
		h, wantBlock := NewHash(), sha256.Sum256(block)
		padded(h.Text(), block)
		alone, library := *h.Block(), *h.plainBlock()
		padded(h.Text(), block)
		if sum := k.SumBeside(h, text); sum != want {
			t.Fatalf("beside a block: %x, want %x", sum, want)
		}
		if beside := *h.Block(); alone != wantBlock || library != wantBlock || beside != wantBlock {
			t.Fatalf("a block: %x alone, %x by the library, %x beside; want %x", alone, library, beside, wantBlock)
		}
	})
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
	needs.Unwatched(t) // the race detector allocates
	k, h, text := New([]byte("secret")), NewHash(), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		k.SumWith(h, text)
		k.SumBeside(h, text)
		h.Text()
		h.Block()
	}); n != 0 {
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

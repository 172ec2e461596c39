package hmackey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"sync"
	"testing"

	"weir/internal/testkit/needs"
)

// TestSum: it is HMAC-SHA256, for secrets and texts of any length, and whatever was signed before.
func TestSum(t *testing.T) {
	all := make([]byte, 700)
	for i := range all {
		all[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{0, 1, 31, 32, 63, 64, 65, 200} {
		secret := bytes.Repeat([]byte{byte(n), 9}, n)[:n]
		k := New(secret)
		for length := range len(all) {
			h := hmac.New(sha256.New, secret)
			h.Write(all[:length])
			if want, got := h.Sum(nil), k.Sum(all[:length]); !bytes.Equal(got[:], want) {
				t.Fatalf("a secret of %d, a text of %d: %x, want %x", n, length, got, want)
			}
		}
	}
}

// TestSecretIsKept: who changes the secret afterwards does not change the key.
func TestSecretIsKept(t *testing.T) {
	secret := []byte("secret")
	k := New(secret)
	clear(secret)
	if k.Sum(nil) != New([]byte("secret")).Sum(nil) {
		t.Error("another key")
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
	needs.Unwatched(t) // the race detector allocates
	k, text := New([]byte("secret")), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { k.Sum(text) }); n != 0 {
		t.Errorf("%f allocations", n)
	}
}

func BenchmarkSum(b *testing.B) {
	k, text := New([]byte("secret")), make([]byte, 97)
	for b.Loop() {
		k.Sum(text)
	}
}

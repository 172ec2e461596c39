package hmackey

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"
)

func TestSum(t *testing.T) {
	secret, text := []byte("secret"), []byte("what is signed")
	h := hmac.New(sha256.New, secret)
	h.Write(text)
	k := New(secret)
	for range 2 {
		if sum := k.Sum(text); !hmac.Equal(sum[:], h.Sum(nil)) {
			t.Errorf("%x", sum)
		}
		k.Sum([]byte("something else"))
	}
}

package identify

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// maskKey makes fingerprints useless to somebody with the log and a list of likely ids. It lives with the process.
var maskKey = func() (key [32]byte) {
	_, _ = rand.Read(key[:]) // never fails: crypto/rand
	return key
}()

// Mask returns a short fingerprint of an account id, to be logged in its place: the same for the same id as long as the
// process lives, and nothing that could be turned back. An empty id has an empty one.
func Mask(id string) string {
	if id == "" {
		return ""
	}
	var array [len(maskKey) + MaxAccount]byte
	sum := sha256.Sum256(append(append(array[:0], maskKey[:]...), id...))
	return hex.EncodeToString(sum[:4])
}

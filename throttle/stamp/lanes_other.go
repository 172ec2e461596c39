//go:build !amd64

package stamp

// There are no vector instructions for these processors here.
const hasEqsLanes, hasTextLanes = false, false

var (
	eqsPairs [32]uint16
	text64   struct{}
)

func eqsLanes(*sipKey, uint64, *[32]uint16, *[eqsBytes]byte) bool {
	panic("stamp: no vector instructions")
}

func textLanes(*struct{}, []byte, string) bool { panic("stamp: no vector instructions") }

package stored

import "testing"

func TestReader(t *testing.T) {
	r := Reader{Left: []byte{1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0xac, 0x02, 9, 8}}
	if r.Byte() != 1 || r.Uint16() != 2 || r.Uint32() != 3 || r.Uint64() != 4 || r.Count(300) != 300 ||
		string(r.Take(1)) != "\t" || r.Bad || len(r.Left) != 1 {
		t.Errorf("%+v", r)
	}
	if r.Uint16() != 0 || !r.Bad || r.Byte() != 0 || r.Take(0) != nil || r.Uint64() != 0 || r.Count(1) != 0 {
		t.Errorf("%+v", r)
	}
	for name, b := range map[string][]byte{
		"nothing": {}, "too many": {6}, "more bytes than it takes": {0x81, 0}, "unfinished": {0x80},
	} {
		if r := (Reader{Left: b}); r.Count(5) != 0 || !r.Bad {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

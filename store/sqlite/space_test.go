package sqlite

import (
	"math"
	"testing"
)

// New mail leaves space on the disk, unless nobody wants that.
func TestSpace(t *testing.T) {
	folder := t.TempDir()
	free, all, ok := diskSpace(folder)
	if !ok {
		t.Skip("the system does not tell how much room there is")
	}
	if free <= 0 || all < free {
		t.Fatalf("%d of %d bytes are free", free, all)
	}
	for want, bytes := range map[int64][2]int64{ // what is asked for, and between what it is, as others write too
		0:         {math.MinInt64, all},
		-1:        {math.MaxInt64, math.MaxInt64},
		all + 1:   {math.MinInt64, -1},
		1<<62 - 1: {math.MinInt64, -1},
	} {
		s := mustOpen(t, Options{Folder: folder, Reserve: want})
		if got, _ := s.Mail().(mail).Space(); got < bytes[0] || got > bytes[1] {
			t.Errorf("with a reserve of %d there is room for %d, want %d to %d", want, got, bytes[0], bytes[1])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, ok := diskSpace(folder + "/nowhere"); ok {
		t.Error("a folder that is not there has room")
	}
}

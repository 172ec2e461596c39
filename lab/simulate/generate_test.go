package simulate

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"weir/throttle/outbreak"
)

// The generated log of testdata.
const generatedUsers, generatedDays = 40, 14

// defaultParams are those of an operator who wrote nothing.
func defaultParams(t testing.TB) outbreak.Params {
	t.Helper()
	p, err := new(outbreak.Options).Params("", "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGeneratedLog holds the study of a log that is made up, the same on every machine, against what was written down.
func TestGeneratedLog(t *testing.T) {
	var b bytes.Buffer
	if err := writeCSV(&b, generateLog(generatedUsers, generatedDays)); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 200_000 {
		t.Errorf("%d bytes", b.Len())
	}
	golden(t, "generated.csv", b.Bytes())
	study := run(t, ReplayOptions{Params: defaultParams(t), Sweeps: DefaultSweeps(), Share: DefaultShare},
		generateLog(generatedUsers, generatedDays))
	half := study.Queue[:0:0]
	for _, q := range study.Queue {
		if q.Minute%30 == 0 {
			half = append(half, q)
		}
	}
	study.Queue = half
	goldenJSON(t, "generated.json", study)
}

// What is written can be replayed as well as what it was written from.
func TestGeneratedFile(t *testing.T) {
	log, _ := readLog(t, LogOptions{}, "testdata/generated.csv")
	o := ReplayOptions{Params: defaultParams(t)}
	read, made := run(t, o, slices.Values(log)), run(t, o, generateLog(generatedUsers, generatedDays))
	if read.Figures != made.Figures {
		t.Errorf("%+v, want %+v", read.Figures, made.Figures)
	}
}

func TestGeneratedInOrder(t *testing.T) {
	last, n := generatedStart, 0
	for e := range generateLog(12, 10) {
		if e.At.Before(last) || len(e.To) == 0 {
			t.Fatal(e, last)
		}
		if last = e.At; n == 500 {
			break
		}
		n++
	}
	if n != 500 {
		t.Error(n)
	}
}

// full takes no more than so many bytes.
type full int

func (f *full) Write(b []byte) (int, error) {
	if *f -= full(len(b)); *f < 0 {
		return 0, errors.New("full")
	}
	return len(b), nil
}

func TestWriteCSVFull(t *testing.T) {
	for _, room := range []full{5, 100} {
		if err := writeCSV(&room, generateLog(12, 10)); err == nil || err.Error() != "full" {
			t.Error(err)
		}
	}
}

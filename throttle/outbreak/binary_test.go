package outbreak

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// states are some of every kind.
func states(t testing.TB) map[string]*State {
	all := map[string]*State{"new": {}}
	r := newRig(t, standard())
	r.p.WorkingSet = 5
	for range 5 {
		r.wait(time.Hour).fresh()
	}
	all["typical"] = reread(t, &r.s)
	r.p.MultiEvery = 7 * time.Second
	r.wait(time.Hour).send(r.many(12)...)
	r.wait(20 * time.Second)
	all["two clocks"] = reread(t, &r.s)
	r.p.Nulls = Nulls{Per: time.Hour, Every: time.Minute}
	r.s.TakeNull(&r.p, r.now)
	all["without a sender"] = reread(t, &r.s)
	r.p.Nulls = Nulls{}
	r.s.Submit(&r.p, r.now, 1<<62, r.many(6), []int{1, 3, 300, 301, 9, 1 << 30}, nil)
	r.fresh()
	all["waiting"] = reread(t, &r.s)
	r.send(r.many(30)...)
	all["stopped"] = reread(t, &r.s)
	r.wait(time.Hour)
	r.s.Resume(&r.p, r.now, true)
	all["slow"] = reread(t, &r.s)
	r.s.Stop(r.now)
	all["by an operator"] = reread(t, &r.s)
	return all
}

// A million users must fit.
func TestStatesAreSmall(t *testing.T) {
	for name, want := range map[string]int{"new": 6, "typical": 61, "two clocks": 73} {
		s := states(t)[name]
		if b, _ := s.AppendBinary(nil); len(b) != want {
			t.Errorf("%s: %d bytes, want %d", name, len(b), want)
		}
	}
}

func TestMarshalBinary(t *testing.T) {
	s := states(t)["waiting"]
	a, errA := s.MarshalBinary()
	b, errB := s.AppendBinary([]byte("x"))
	if errA != nil || errB != nil || !bytes.Equal(append([]byte("x"), a...), b) {
		t.Error(a, b)
	}
}

// What is not a state is refused, wherever it is cut off or changed, and changes nothing.
func TestUnmarshalRefuses(t *testing.T) {
	for name, s := range states(t) {
		b, _ := s.AppendBinary(nil)
		var read State
		for n := range b {
			if err := read.UnmarshalBinary(b[:n]); !errors.Is(err, ErrFormat) {
				t.Errorf("%s, %d of %d bytes: %v", name, n, len(b), err)
			}
		}
		if err := read.UnmarshalBinary(append(slices.Clone(b), 0)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s and a byte more: %v", name, err)
		}
		b[0] = version + 1
		if err := read.UnmarshalBinary(b); !errors.Is(err, ErrVersion) ||
			!strings.Contains(err.Error(), "2 instead of 1") {
			t.Errorf("%s of another version: %v", name, err)
		}
		if fmt.Sprint(read) != fmt.Sprint(State{}) {
			t.Errorf("%s: changed by what was refused", name)
		}
	}
	time8 := "\x00\x00\x00\x00\x00\x00\x00\x09"
	late := "\x7f\xff\xff\xff\xff\xff\xff\xff"
	item := "\x02" + time8 + "\x00" + time8 // one of mail 9
	for name, text := range map[string]string{
		"no flags":              "\x01",
		"unknown flag":          "\x01\x20\x00\x00\x00\x00",
		"operator, not stopped": "\x01\x04\x00\x00\x00\x00",
		"slow, not started":     "\x01\x08\x00\x00\x00\x00",
		"spent, not started":    "\x01\x00\x01\x00\x00\x00",
		"the same two clocks":   "\x01\x11" + time8 + time8 + "\x00\x00\x00\x00",
		"one of two clocks":     "\x01\x10" + time8 + "\x00\x00\x00\x00",
		"late":                  "\x01\x01" + late + "\x00\x00\x00\x00",
		"long number":           "\x01\x01" + time8 + "\x80\x00\x00\x00\x00",
		"much spent":            "\x01\x01" + time8 + "\x91\x4e\x00\x00\x00", // MaxCredit + 1
		"large set":             "\x01\x01" + time8 + "\x00\x00\xe9\x07" + strings.Repeat(time8, 1001) + "\x00",
		"larger set than bytes": "\x01\x01" + time8 + "\x00\x00\xe8\x07" + time8,
		"twice in the set":      "\x01\x01" + time8 + "\x00\x00\x02" + time8 + time8 + "\x00",
		// MaxItems + 1
		"long queue":              "\x01\x01" + time8 + "\x00\x00\x00\x81\x80\x04" + strings.Repeat("\x00", 1<<20),
		"longer queue than bytes": "\x01\x01" + time8 + "\x00\x00\x00\x80\x80\x04" + item,
		"empty run":               "\x01\x01" + time8 + "\x00\x00\x00\x01\x00" + item,
		"longer run than queue": "\x01\x01" + time8 + "\x00\x00\x00\x01\x04" + time8 + "\x00" + time8 + "\x00" +
			time8,
		"two runs of a mail": "\x01\x01" + time8 + "\x00\x00\x00\x02" + item + item,
	} {
		if err := new(State).UnmarshalBinary([]byte(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := new(State).UnmarshalBinary([]byte("\x01\x01" + time8 + "\x00\x00\x00\x01" + item)); err != nil {
		t.Error("what is right:", err)
	}
}

// FuzzState: whatever is read is written as it was, and can be used, whatever the parameters are.
func FuzzState(f *testing.F) {
	for _, s := range states(f) {
		b, _ := s.AppendBinary(nil)
		f.Add(b, int64(time.Minute), int64(time.Minute), int64(epoch.Unix()), int64(3600))
		f.Add(b, int64(time.Minute), int64(7*time.Second), int64(epoch.Unix()), int64(-3600))
	}
	f.Fuzz(func(t *testing.T, b []byte, every, multi, now, later int64) {
		var s State
		if s.UnmarshalBinary(b) != nil {
			return
		}
		if again, err := s.AppendBinary(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x: %v", b, again, err)
		}
		p := standard()
		p.Every, p.MultiEvery, p.Resume = time.Duration(every), time.Duration(multi), time.Duration(later)
		waiting, out := len(s.Waiting()), 0
		for i, at := range []time.Time{time.Unix(now, 0), time.Unix(now, 0).Add(time.Duration(later) * time.Second),
			epoch} {
			s.Due(&p)
			s.Peek(&p, at, []uint64{9}, nil)
			dropped := func(before int, was bool) { // what was held is nobody's after a resume
				if _, is := s.Stopped(); was && !is {
					waiting -= before
				}
			}
			before := len(s.Waiting())
			_, was := s.Stopped()
			out += len(s.Tick(&p, at, nil))
			dropped(before, was)
			fates := make([]Fate, 3)
			waiting += s.Submit(&p, at, 7, []uint64{1, 2, 3}, nil, fates).Delayed
			waiting += s.Submit(&p, at, 8, []uint64{4}, nil, fates).Delayed
			if i == 1 {
				before := len(s.Waiting())
				_, was := s.Stopped()
				s.Resume(&p, at, later%2 == 0)
				dropped(before, was)
			}
		}
		out += len(s.Take(func(it Item) bool { return it.Key%2 == 0 }))
		if waiting-out != len(s.Waiting()) {
			t.Fatalf("%d of %d have left, and %d wait", out, waiting, len(s.Waiting()))
		}
		reread(t, &s)
	})
}

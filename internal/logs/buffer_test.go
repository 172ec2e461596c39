package logs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A reader that stops holds nobody up: lines up to the bound wait for it, the rest is counted, and it is told of them
// when it reads on.
func TestReaderThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := NewBuffer(w, 100)
		var dropped int
		o.Tell(func(n int64) { dropped += int(n) }, func(n int64) { fmt.Fprintf(o, "%d missing\n", n) })
		line := []byte("123456789\n")
		for range 50 {
			if n, err := o.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
			synctest.Wait()
		}
		// One is being written, ten wait.
		if dropped != 39 {
			t.Errorf("%d lines were left out", dropped)
		}
		time.Sleep(7 * time.Second)
		if stuck := o.Stuck(time.Now()); stuck != 7*time.Second {
			t.Errorf("stuck for %s", stuck)
		}
		var got []string
		lines := bufio.NewScanner(r)
		for range 12 {
			lines.Scan()
			got = append(got, lines.Text())
		}
		if want := strings.Repeat("123456789 ", 11) + "39 missing"; strings.Join(got, " ") != want {
			t.Errorf("%q", got)
		}
		synctest.Wait()
		if stuck := o.Stuck(time.Now()); stuck != 0 {
			t.Errorf("stuck for %s", stuck)
		}
		o.Close(time.Second)
	})
}

// What waits is written before the end, unless nobody reads it.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := NewBuffer(w, 1000)
		for i := range 3 {
			fmt.Fprintln(o, i)
		}
		read := make(chan string)
		go func() {
			all, _ := io.ReadAll(r)
			read <- string(all)
		}()
		o.Close(time.Minute)
		fmt.Fprintln(o, "too late")
		w.Close()
		if got := <-read; got != "0\n1\n2\n" {
			t.Errorf("%q", got)
		}

		r, w = io.Pipe()
		o = NewBuffer(w, 1000)
		fmt.Fprintln(o, "nobody reads this")
		began := time.Now()
		o.Close(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
		r.Close()
	})
}

// What cannot be written is tried again until the end, and then it is lost; until then it is known why.
func TestWriterThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		r.Close()
		o := NewBuffer(w, 1000)
		dropped := 0
		o.Tell(func(n int64) { dropped += int(n) }, nil)
		fmt.Fprintln(o, "one")
		synctest.Wait()
		fmt.Fprintln(o, "two")
		time.Sleep(time.Hour)
		if err := o.Failing(); err != io.ErrClosedPipe || dropped != 0 {
			t.Errorf("%v, and %d lines were left out", err, dropped)
		}
		began := time.Now()
		o.Close(time.Second)
		if took := time.Since(began); dropped != 2 || took != 0 {
			t.Errorf("%d lines were left out, after %s", dropped, took)
		}
	})
}

// When a full disk has room again, the log goes on where it stopped.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &small{room: 15}
		o := NewGathering(d, 1000, 40, time.Second)
		o.Tell(func(n int64) { t.Errorf("%d lines were left out", n) }, nil)
		for i := range 4 {
			fmt.Fprintf(o, "%09d\n", i)
		}
		synctest.Wait()
		if err := o.Failing(); err != io.ErrShortWrite {
			t.Error(err)
		}
		d.mu.Lock()
		d.room = 1000
		d.mu.Unlock()
		time.Sleep(again)
		synctest.Wait()
		if got := string(d.text); got != "000000000\n000000001\n000000002\n000000003\n" || o.Failing() != nil {
			t.Errorf("%q, %v", got, o.Failing())
		}
		o.Close(time.Second)
	})
}

// small is a disk with little room.
type small struct {
	mu   sync.Mutex
	room int
	text []byte
}

func (d *small) Write(p []byte) (n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = min(len(p), d.room)
	d.room -= n
	d.text = append(d.text, p[:n]...)
	if n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// Lines of many goroutines come whole and all of them, however they meet the writer.
func TestLinesAreWhole(t *testing.T) {
	const goroutines, each = 4, 2000
	var got bytes.Buffer
	o := NewBuffer(&got, 1<<20)
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				fmt.Fprintf(o, "%d %s\n", g, strings.Repeat("x", i%100))
				if i%7 == 0 {
					o.rouse() // there may be nothing to do
				}
			}
		})
	}
	all.Wait()
	o.Close(time.Minute)
	n := 0
	for line := range strings.Lines(got.String()) {
		if n++; len(line) < 3 || strings.Trim(line[2:], "x") != "\n" {
			t.Fatalf("line %d is %q", n, line)
		}
	}
	if n != goroutines*each {
		t.Errorf("%d lines", n)
	}
}

// Lines are gathered: they are written when there are enough, and after a while.
func TestGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got writes
		o := NewGathering(&got, 1000, 30, time.Second)
		line := "123456789\n"
		write := func(lines int) {
			for range lines {
				fmt.Fprint(o, line)
			}
			synctest.Wait()
		}
		write(2)
		time.Sleep(time.Second - 1)
		if synctest.Wait(); got.String() != "" {
			t.Errorf("too early: %q", got.String())
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); got.String() != "20" {
			t.Errorf("after a second: %q", got.String())
		}
		write(3) // enough
		write(1)
		if got.String() != "20 30" {
			t.Errorf("three lines: %q", got.String())
		}
		time.Sleep(time.Hour)
		if synctest.Wait(); got.String() != "20 30 10" {
			t.Errorf("after an hour: %q", got.String())
		}
		write(1)
		o.Close(time.Second)
		if got.String() != "20 30 10 10" {
			t.Errorf("at the end: %q", got.String())
		}
	})
}

// writes notes how much was written at a time.
type writes struct {
	mu    sync.Mutex
	sizes []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sizes = append(w.sizes, fmt.Sprint(len(p)))
	return len(p), nil
}

func (w *writes) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.sizes, " ")
}

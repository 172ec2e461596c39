package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlotsAreCurrent(t *testing.T) {
	for i, p := range plots {
		want, err := generate(i, filepath.Join(root, p.points))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, p.plot))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current (%v): run go generate ./internal/gen/plots", p.plot, err)
		}
	}
}

// TestDrawGrowth: a line and its signs for each proxy, a legend of as many, and a tick at each point.
func TestDrawGrowth(t *testing.T) {
	const points = "connections,nginx_us,haproxy_us,weir_us\n4,10,11,14\n64,9,10,12\n1024,9.5,12,15\n"
	plot, err := byConnections.draw(strings.NewReader(points))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := byConnections.draw(strings.NewReader(points)); err != nil || !bytes.Equal(plot, again) {
		t.Error("a second run gives something else")
	}
	wellFormed(t, plot)
	for what, n := range map[string]int{`class="line `: 6, `class="sign `: 12, ">HAProxy<": 1, ">1,024<": 1, ">15<": 1} {
		if got := strings.Count(string(plot), what); got != n {
			t.Errorf("%d times %q, want %d", got, what, n)
		}
	}
	alone, err := memoryByWaiting.draw(strings.NewReader("waiting,weir_us,memory_mb\n0,20,40\n10000,21,160\n"))
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, alone)
	if n := strings.Count(string(alone), `class="line weir`); n != 2 {
		t.Errorf("%d lines", n)
	}
	for _, text := range []string{"connections,nginx_us\n", "connections,nginx_us,weir_us\n1,2,3\n",
		"connections,nginx_us,haproxy_us,weir_us\n4,10,-1,14\n"} {
		if _, err := byConnections.draw(strings.NewReader(text)); err == nil {
			t.Errorf("%q is drawn", text)
		}
	}
}

const some = `attackers,k,lines,times,probes,formula,measured
51570,5,16384,50,1000,0.01,0.0101
17838,3,16384,50,1000,0.001,0.00099
76560,7,32768,50,1000,0.05,0.0498
`

func TestDraw(t *testing.T) {
	points, err := read(strings.NewReader(some))
	if err != nil {
		t.Fatal(err)
	}
	plot, err := draw(points)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := draw(points); err != nil || !bytes.Equal(plot, again) {
		t.Error("a second run gives something else")
	}
	wellFormed(t, plot)
	for what, n := range map[string]int{`class="line `: 6, `class="sign `: 6, "k = 5<": 1,
		"prefers-color-scheme: dark": 1} {
		if got := strings.Count(string(plot), what); got != n {
			t.Errorf("%d times %q, want %d", got, what, n)
		}
	}
	if at := points[2].perMiB(); points[2].k != 7 || at != 38280 {
		t.Errorf("the last point is %+v, at %v", points[2], at)
	}
}

// TestDrawOvershoot: two lines and signs without one, and a legend of all three. Nothing above the limit is a point
// too.
func wellFormed(t *testing.T, plot []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(plot)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                                        "no points",
		"attackers,k,lines,measured\n":            "no points",
		"attackers,k,measured\n1,5,0.1\n":         `no column "lines"`,
		"attackers,k,lines,measured\n1,5,9,x\n":   `line 2: measured is "x"`,
		"attackers,k,lines,measured\n1,5,9,0\n":   `line 2: measured is "0"`,
		"attackers,k,lines,measured\n1,5,9\n":     "wrong number of fields",
		"attackers,k,lines,measured\n1,5,9,\"0\n": "line 2",
	} {
		if _, err := read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := generate(0, "no-such-file"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "B4") {
		t.Error(err)
	}
}

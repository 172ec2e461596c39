package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// What cannot be tried is a wrong use of the command, whatever is in the files: exit code 2, and what to write instead.
func TestSimulateMistakes(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{`simulate`, ``},
		{`simulate worm`, ``},
		{`simulate virus --rate 0/m`, `--rate: a virus that sends nothing \(write 60/m\)`},
		{`simulate virus --rate=-3/m`, `--rate: "-3/m" is not a rate \(write 100/s, 5/m or 3/10s\)`},
		{`simulate virus --rate 1e5/m`, `--rate: 100000 messages a minute are out of bounds \(between 0.01 and 60000\)`},
		{`simulate virus --rate fast`, `--rate: `},
		{`simulate virus --rate 60`, `--rate: "60" does not say per what \(did you mean 60/s or 60/m\?\)`},
		{`simulate virus --rate 2.5/m`, `--rate: "2.5/m" is not a rate \(write 5/2m\)`},
		{`simulate virus --recipients-per-mail 1.5`,
			`--recipients-per-mail: "1.5" is not a whole number \(write 20, 1e6 or 1M\)`},
		{`simulate virus --recipients-per-mail 0`, `--recipients-per-mail: 0 is out of bounds \(between 1 and `},
		{`simulate virus --known 120%`, `--known: .* is not a share`},
		{`simulate virus --known 0.2`, `--known: "0.2" has no unit \(did you mean 20%, or 0.2%\?\)`},
		{`simulate virus --table --rate 60/m`, `--table: its viruses are those of the document`},
		{`simulate virus --throttle slow`, `--throttle: there is no configuration to find it in`},
		{`simulate virus somewhere`, ``},
		{`simulate mail`, `--log`},
		{`simulate mail --log mail.csv --working-set=-1`, `--working-set: "-1" is below zero \(write 0 or more\)`},
		{`simulate mail --log mail.csv --max-mslack 1000000`, `--max-mslack: 1000000 is out of bounds`},
		{`simulate mail --log mail.csv --rate 0/m`, `--rate: at this rate waiting messages never leave`},
		{`simulate mail --log mail.csv --rate 5`, `--rate: "5" does not say per what`},
		{`simulate mail --log mail.csv --sweep workingset=0..10`,
			`--sweep: unknown parameter "workingset" \(did you mean "working_set"\?\)`},
		{`simulate mail --log mail.csv --sweep working_set=10..0`,
			`--sweep: working_set: 10..0 goes down \(write 0..10\)`},
		{`simulate mail --log mail.csv --sweep stop=5 --sweep stop=6`, `--sweep: stop is swept twice`},
		{`simulate mail --log mail.csv --delayed-at-most 1`,
			`--delayed-at-most: "1" has no unit \(did you mean 1%\?\)`},
		{`simulate mail --log mail.csv --delayed-at-most 101%`, `--delayed-at-most: 101% is not a share of the messages`},
		{`simulate mail --log mail.csv --report nowhere/report.html`, `--report: there is no folder nowhere`},
		{`simulate mail --log mail.csv --format exim`, `--format`},
		{`simulate mail --log mail.csv --year 1`, `--year: 1 is out of bounds`},
		{`simulate mail --log mail.csv --users 1000`, `--users: 1000 is out of bounds`},
		{`simulate mail --log mail.csv --throttle outgoing`, `--throttle: there is no configuration to find it in`},
		{`simulate reach`, `--log`},
		{`simulate reach --log mail.csv --steal 30`, `--steal: "30" does not say per what`},
		{`simulate reach --log mail.csv --steal 0/h`, `--steal: 0 new people an hour are out of bounds \(more than 0`},
		{`simulate reach --log mail.csv --steal 1000/s`, `--steal: 3.6e\+06 new people an hour are out of bounds`},
		{`simulate reach --log mail.csv --users=-1`, `--users: "-1" is below zero \(write 0 or more\)`},
		{`simulate reach --log mail.csv --throttle people`, `--throttle: there is no configuration to find it in`},
		{`simulate flood`, `--capacity: what can the service do\?`},
		{`simulate flood --capacity 0/s`, `--capacity: a service that can do 0/s serves nobody`},
		{`simulate flood --capacity 50`, `--capacity: "50" does not say per what`},
		{`simulate flood --capacity 50/s --concurrent 4 --service 1s`,
			`--capacity: it follows from --concurrent and --service`},
		{`simulate flood --concurrent=-1`, `--concurrent: "-1" is below zero \(write 0 or more\)`},
		{`simulate flood --concurrent 4 --service 0s`, `--service: a service that takes no time`},
		{`simulate flood --capacity 50/s --without 120%`, `--without: 120% is not a share of people`},
		{`simulate flood --capacity 50/s --paying 100/s`, `--hashes: the flood that pays cannot pay anything`},
		{`simulate flood --capacity 50/s --hashes many`, `--hashes: "many" is not a number \(write 20, 1e6 or 1M\)`},
		{`simulate flood --capacity 50/s --until 3m`, `--until: a flood from 10s until 3m is not within 2m`},
		{`simulate flood --capacity 50/s --flood 1e6/s --for 1h`, `--for: .* visits are more than are played`},
		{`simulate flood --capacity 50/s --covers=-1`, `--covers: "-1" is below zero \(write 0 or more\)`},
		{`simulate flood --capacity 50/s --gate :8080`, `--gate: there is no configuration to find it in`},
	} {
		var out, told bytes.Buffer
		code := run(strings.Fields(c.args), &terminal{out: &out, err: &told})
		if code != exitUsage || out.Len() > 0 || !regexp.MustCompile(c.want).MatchString(told.String()) {
			t.Errorf("weir %s: code %d, %s%s, want %s", c.args, code, out.String(), told.String(), c.want)
		}
	}
}

// A file is there as a whole or not at all, and what was there before stays when the new one cannot be written.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "report.html"), filepath.Join(dir, "link.html")
	for _, text := range []string{"first", "second, longer", "third"} {
		if err := replaceFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := errors.Join(os.Chmod(name, 0o600), os.Symlink("report.html", link),
		replaceFile(link, []byte("by a link"))); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is none any more: %v", err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("who may read it has changed: %v", err)
	}
	part := fmt.Sprintf("%s.%d.part", name, os.Getpid())
	if err := os.Mkdir(part, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(name, []byte("fourth")); err == nil {
		t.Error("it was written all the same")
	}
	if got, _ := os.ReadFile(name); string(got) != "by a link" {
		t.Errorf("%q", got)
	}
	if err := replaceFile(os.DevNull, []byte("fifth")); err != nil {
		t.Error(err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 3 {
		t.Errorf("left over: %v", all)
	}
}

func TestHashes(t *testing.T) {
	for text, want := range map[string]hashes{"8M": 8e6, "15.6G": 15.6e9, "3000": 3000, "2k/s": 2000, "1T": 1e12,
		"1e9": 1e9, "60M/m": 1e6} {
		var h hashes
		if err := h.UnmarshalText([]byte(text)); err != nil || h != want {
			t.Errorf("%s: %g, %v", text, h, err)
		}
	}
	for _, text := range []string{"", "M", "-8M", "8 M", "inf", "8MB"} {
		var h hashes
		if err := h.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %g", text, h)
		}
	}
}

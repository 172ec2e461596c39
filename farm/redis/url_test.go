package redis

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for url, want := range map[string]address{
		"redis://127.0.0.1:6379":        {addresses: []string{"127.0.0.1:6379"}},
		"redis://localhost":             {addresses: []string{"localhost:6379"}},
		"valkey://[::1]":                {addresses: []string{"[::1]:6379"}},
		"valkeys://[::1]:7/5":           {addresses: []string{"[::1]:7"}, tls: true, db: 5},
		"rediss://a.example/2?prefix=x": {addresses: []string{"a.example:6379"}, tls: true, db: 2, prefix: "x"},
		"redis://u:p%40s%2Fs@h:1?db=3":  {addresses: []string{"h:1"}, user: "u", password: "p@s/s", db: 3},
		"redis://u:p@/s@h":              {addresses: []string{"h:6379"}, user: "u", password: "p@/s"},
		"redis://:p@h":                  {addresses: []string{"h:6379"}, password: "p"},
		"redis://a,b:7,[::1]:8":         {addresses: []string{"a:6379", "b:7", "[::1]:8"}, cluster: true},
		"redis://a?cluster=true":        {addresses: []string{"a:6379"}, cluster: true},
		"redis+sentinel://a,b:1/m?db=2": {addresses: []string{"a:26379", "b:1"}, master: "m", db: 2},
		"redis+unix:///run/r.sock":      {addresses: []string{"/run/r.sock"}, socket: true},
		"valkey+unix://u:p@/r?db=2":     {addresses: []string{"/r"}, socket: true, user: "u", password: "p", db: 2},
		"rediss+sentinel://a/m?sentinel_user=x&sentinel_password=y": {addresses: []string{"a:26379"}, tls: true,
			master: "m", sentinelUser: "x", sentinelPassword: "y"},
	} {
		if want.prefix == "" {
			want.prefix = "weir"
		}
		if got, err := parse(url); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", url, got, err, want)
		}
	}
	many := "redis://" + strings.Repeat("a,", maxAddresses-1) + "a"
	if _, err := parse(many); err != nil {
		t.Errorf("as many addresses as possible: %v", err)
	}
	long := "redis://a?prefix=" + strings.Repeat("x", maxPrefix)
	if _, err := parse(long); err != nil {
		t.Errorf("the longest prefix: %v", err)
	}
	socket := "redis+unix:///" + strings.Repeat("s", maxSocket-1)
	if _, err := parse(socket); err != nil {
		t.Errorf("the longest path of a socket: %v", err)
	}
	for url, says := range map[string]string{
		socket + "s":                   "no path of a socket",
		"redis+unix://":                "no path of a socket",
		"redis+unix:///":               "no path of a socket",
		"redis+unix://host/s":          "no path of a socket",
		"rediss+unix:///s":             "its scheme is not one of",
		"redis+unix+sentinel:///s":     "sentinels are asked over the network",
		"redis+unix:///s?cluster=true": "unknown option",
		"":                             "no scheme",
		"127.0.0.1:6379":               "no scheme",
		"http://a":                     "its scheme is not one of",
		"redis://":                     "not an address",
		"redis://a:b":                  "not an address",
		"redis://a:0":                  "not an address",
		"redis://a:65536":              "not an address",
		"redis://::1":                  "not an address",
		"redis://a,":                   "not an address",
		"redis://a/x":                  "not the number of a database",
		"redis://a/-1":                 "not the number of a database",
		"redis://a,b/1":                "no database besides 0",
		"redis://a,b?cluster=no":       "cluster must be true",
		"redis://a?cluster=what":       "cluster must be true",
		"redis://a?retries=3":          `unknown option "retries"`,
		"redis://a?prefix=":            "prefix must have",
		"redis://a?prefix={x}":         "prefix must have",
		"redis://a?%zz":                "cannot be read",
		"redis://u:%zz@a":              "password is not escaped",
		"redis://%zz:p@a":              "user is not escaped",
		"redis://u:p?w@a":              "a ? before an @",
		"redis+sentinel://a":           "what the sentinels call",
		"redis+sentinel://a/b/c":       "what the sentinels call",
		"redis://a?sentinel_user=":     "unknown option",
		many + ",a":                    "more than 64 addresses",
		long + "x":                     "prefix must have",
		"redis://u:" + strings.Repeat("p", maxURL) + "@a": "4096 are possible",
	} {
		if _, err := Open(url, Options{}); !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v; want %q", url, err, says)
		}
	}
}

// TestWhere: what is shown of a URL has all but the user and the passwords.
func TestWhere(t *testing.T) {
	for url, want := range map[string]string{
		"redis://u:p@h":                                            "redis://h:6379",
		"valkeys://u:p@h:1/2?prefix=x":                             "rediss://h:1/2?prefix=x",
		"redis://u:p@a,b":                                          "redis://a:6379,b:6379",
		"valkey+unix://u:p@/run/r.sock?db=2":                       "redis+unix:///run/r.sock?db=2",
		"redis://u:p@[::1]?cluster=true":                           "redis://[::1]:6379?cluster=true",
		"rediss+sentinel://u:p@a,b:1/m?db=3":                       "rediss+sentinel://a:26379,b:1/m?db=3",
		"redis+sentinel://a/m?sentinel_user=x&sentinel_password=y": "redis+sentinel://a:26379/m",
	} {
		got, err := Where(url)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", url, got, err, want)
		}
		if again, err := Where(got); err != nil || again != got {
			t.Errorf("%q becomes %q, %v", got, again, err)
		}
	}
	if _, err := Where("redis://"); !errors.Is(err, ErrURL) {
		t.Error(err)
	}
}

// TestErrorsHideThePassword: whatever is wrong with a URL, its password is in no text.
func TestErrorsHideThePassword(t *testing.T) {
	for _, url := range []string{"redis://u:hunter2", "redis://u:hunter2/x", "redis://u:hunter2?x@h", "redis://u:x?hunter2@h",
		"http://u:hunter2@h", "redis://u:hunter2%zz@h", "redis://:hunter2@h:x", "redis://h/hunter2", "u:hunter2@h",
		"redis://u:hunter2@h?what=1", "redis://u:hunter2@a,b/1", "redis+sentinel://h/m?sentinel_password=hunter2&x=1",
		"redis+sentinel://u:hunter2@h"} {
		if _, err := Where(url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	p, err := Open("redis+sentinel://u:hunter2@h/m?sentinel_password=sesame", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if text := p.Text(errors.New("AUTH u hunter2 and sesame")); text != "AUTH u … and …" {
		t.Error(text)
	}
}

func FuzzParse(f *testing.F) {
	for _, url := range []string{"redis://u:p@h:1/2?prefix=x", "redis+sentinel://a,b/m", "rediss://[::1]", "redis://a,b?cluster=1"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		p, err := parse(url)
		if err != nil {
			if !errors.Is(err, ErrURL) {
				t.Errorf("%q: %v", url, err)
			}
			return
		}
		if len(p.addresses) == 0 || len(p.addresses) > maxAddresses || p.prefix == "" || p.db < 0 {
			t.Errorf("%q: %+v", url, p)
		}
		where := p.String()
		if again, err := Where(where); err != nil || again != where {
			t.Errorf("%q is shown as %q, which is read as %q, %v", url, where, again, err)
		}
		pot, err := Open(url, Options{})
		if err != nil {
			t.Fatalf("%q is parsed and cannot be opened: %v", url, err)
		}
		pot.Close()
	})
}

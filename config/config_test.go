package config

import (
	"reflect"
	"strings"
	"testing"

	"weir"
	"weir/gate/httpgate"
	"weir/gate/httpgate/accesslog"
	"weir/policy"
	"weir/throttle/quota"
	behind "weir/upstream"
)

func TestDefaults(t *testing.T) {
	given := Config{Throttles: map[string]Throttle{"plans": {Quota: &quota.Options{}}},
		HTTP: []httpgate.Options{{Listen: ":1"}}}
	c := given.WithDefaults()
	if c.Data != "/var/lib/weir" || c.Control != "/var/lib/weir/weir.sock" || c.Console.Listen != "127.0.0.1:9000" {
		t.Errorf("%+v", c)
	}
	if c.Log != (Log{LevelInfo, FormatAuto, RecipientsAddress, accesslog.Options{}.WithDefaults()}) {
		t.Errorf("%+v", c.Log)
	}
	if c.Throttles["plans"].OnError != policy.Closed || c.Throttles["plans"].Quota.MaxAccounts == 0 ||
		c.HTTP[0].Bounds.Connections == 0 {
		t.Errorf("%+v", c)
	}
	if given.Throttles["plans"].OnError != "" || given.Throttles["plans"].Quota.MaxAccounts != 0 ||
		given.HTTP[0].Bounds.Connections != 0 {
		t.Error("the original was changed")
	}
	if again := c.WithDefaults(); !reflect.DeepEqual(again, c) {
		t.Error("filled in twice is not filled in once")
	}
	if c := (Config{Data: "/srv", Control: "/run/x"}).WithDefaults(); c.Control != "/run/x" {
		t.Error(c.Control)
	}
	if c := (Config{Data: "/srv"}).WithDefaults(); c.Control != "/srv/weir.sock" {
		t.Error(c.Control)
	}
}

// A configuration that was put together by code has no lines, but paths.
func TestValidateNamesPaths(t *testing.T) {
	c := Config{
		Throttles: map[string]Throttle{"plans": {Quota: &quota.Options{Policies: []quota.Policy{{Name: "a"}}},
			OnError: "maybe"}},
		HTTP: []httpgate.Options{{Listen: ":1", Upstream: behind.To("http://127.0.0.1:3000"),
			Throttles: []string{"plan"}}},
		Log: Log{Level: "loud"},
	}
	var paths []string
	for _, fe := range weir.FieldErrors(c.Validate()) {
		paths = append(paths, fe.Path)
	}
	for _, want := range []string{"log.level", "throttles.plans.on_error", "throttles.plans.quota.policies[0].limit",
		"http[0].throttles[0]"} {
		if !strings.Contains(strings.Join(paths, " "), want) {
			t.Errorf("%s is not among %v", want, paths)
		}
	}
}

func TestCollide(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{":80", ":80", true}, {":80", ":81", false}, {":80", "127.0.0.1:80", true}, {"0.0.0.0:80", "[::1]:80", true},
		{"[::]:80", "10.0.0.1:80", true}, {"127.0.0.1:80", "127.0.0.2:80", false},
		{"localhost:80", "127.0.0.1:80", true},
		{"[::ffff:127.0.0.1]:80", "127.0.0.1:80", true}, {"Example.com:80", "example.com:80", true},
		{":0", ":0", false},
		{"x", "x", true}, {"x", "y", false},
	} {
		if got := collide(c.a, c.b); got != c.want || collide(c.b, c.a) != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// Whatever the option types hold must be readable, or a key of the reference could not be written.
func TestEveryTypeCanBeRead(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(path string, rt reflect.Type)
	walk = func(path string, rt reflect.Type) {
		if seen[rt] {
			return
		}
		seen[rt] = true
		if reflect.PointerTo(rt).Implements(textUnmarshaler) {
			return
		}
		switch rt.Kind() {
		case reflect.Struct:
			if len(fieldsOf(rt)) == 0 {
				t.Errorf("%s (%s) has no keys", path, rt)
			}
			for _, f := range fieldsOf(rt) {
				walk(path+"."+f.name, f.t)
			}
		case reflect.Pointer, reflect.Slice:
			walk(path, rt.Elem())
		case reflect.Map:
			if rt.Key().Kind() != reflect.String {
				t.Errorf("%s: the keys of %s are not text", path, rt)
			}
			walk(path, rt.Elem())
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		default:
			t.Errorf("%s: %s cannot be read", path, rt)
		}
	}
	walk("", reflect.TypeFor[Config]())
}

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/gate/httpgate"
	"weir/internal/testkit/needs"
	behind "weir/upstream"
)

// setStage builds a stage with a weir of its own. Where it fails, nothing is left behind.
func setStage(scene *Scene, log *slog.Logger, version string) (*Stage, error) {
	s := newStage(newCrew(log, version, scene.Expects...))
	cfg, err := scene.Setup(s)
	if err == nil {
		err = s.own(cfg)
	}
	if err == nil {
		err = s.ready(scene)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("scene %s: %w", scene.Name, err)
	}
	return s, nil
}

// tidy gives the test a temporary folder of its own and fails it when something is left there.
func tidy(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") // short: a socket's path goes in there
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
		os.RemoveAll(dir)
	})
}

func TestJSON(t *testing.T) {
	needs.Unwatched(t)
	tidy(t)
	var out, warnings bytes.Buffer
	returned,
		err := Run(t.Context(), Options{For: 15 * time.Second, JSON: true, Out: &out, Err: &warnings, Terminal: true})
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	d := json.NewDecoder(bytes.NewReader(out.Bytes()))
	if err := d.Decode(&report); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Error("there is more than the report")
	}
	if warnings.Len() > 0 {
		t.Errorf("warnings: %s", &warnings)
	}
	if len(report.Scenes) != len(scenes()) || len(returned.Scenes) != len(scenes()) {
		t.Fatalf("%d scenes", len(report.Scenes))
	}
	for _, s := range report.Scenes {
		if s.Skipped != "" {
			t.Logf("%s: %s", s.Name, s.Skipped)
			continue
		}
		holds := func(fact string, ok bool) {
			t.Helper()
			if !ok {
				t.Errorf("%s: not so: %s\n%s", s.Name, fact, &out)
			}
		}
		holds("people sent something", s.People.Sent > 0)
		holds("the flood sent more than it got", s.Flood.Sent > s.Flood.Served)
		short := s.Mail != nil && s.Mail.Stopped == nil // on a slow machine the story of the mail is longer than that
		holds("the flood was refused", s.Flood.Refused > 0 || s.Mail != nil)
		holds("nothing is refused in shadow", s.Without.People.Refused == 0 && s.Without.Flood.Refused == 0)
		holds("nothing waits in shadow", s.Without.Delayed == 0)
		holds("without the throttle the flood gets what the service has", s.Without.Flood.Served > 0)
		for _, c := range s.Checks {
			holds(c.What, c.OK)
		}
		switch {
		case s.Farm != nil:
			holds("people are served", s.People.Served > 0)
			holds("stamps were copied", s.Farm.Copies > s.Farm.Stamps && s.Farm.Stamps > 0 && s.Farm.Accepted > 0)
			holds("forgers were caught", s.Farm.Caught > 0)
			holds("nobody is caught in shadow", *s.Without.Farm == Farm{})
			holds("there are checks", len(s.Checks) == 3)
		case s.Stamps == nil:
			holds("people lost nothing", s.People.Served+s.People.Held == s.People.Sent &&
				(s.People.Held == 0 || short))
			holds("the flood is held to its limit", s.FloodLimit > 0 && s.Flood.Served <= s.FloodLimit)
			holds("the flood gets its share", s.Flood.Served > 0)
			holds("the flood did not fail", s.Flood.Failed == 0)
		default:
			holds("people are served", s.People.Served > 0)
			holds("there was too much to do", s.Stamps.PeakLoad > stampFrom)
			holds("work was asked for", s.Stamps.LeastWork > 0 && s.Stamps.Asked > 0)
			holds("the flood went", s.Stamps.Calm > 0)
			holds("nobody who does not pay goes first",
				s.Stamps.Paid <= s.People.Sent+actor(s.Half, "paying flood").Sent)
		}
		for _, f := range []Figures{s.People, s.Flood, s.Without.People, s.Without.Flood} {
			holds("the sum is right", f.Sent == f.Served+f.Refused+f.Failed+f.Held)
			holds("latencies are in order", f.P50 <= f.P99)
		}
	}
}

// TestKeys: scripts read the report.
func TestKeys(t *testing.T) {
	figures := "failed,held,p50_ms,p99_ms,refused,sent,served"
	actor := "failed,held,name,networks,p50_ms,p99_ms,refused,role,sent,served,work_s"
	stamps := "asked,calm_s,dormant_after_s,end_work,end_work_ms,least_work,least_work_ms,let_in_pool,let_in_stamped,peak_delay_ms,peak_load,peak_work,peak_work_ms"
	mail := "arrived_again,deleted,late,own_caught,released,released_arrived,resumed,spam_held,spam_out,stopped_after_s,thefts,thief_shut_out"
	farm := "accepted,caught,copies,followed,listed,most,spread_ms,stamps"
	half := []string{"actors[]: " + actor, "bloom: attackers,bytes,collateral,drained,rotations", "farm: " + farm,
		"flood: " + figures,
		"mail: " + mail, "people: " + figures, "stamps: " + stamps}
	some := Figures{Held: 1}
	h := Half{People: some, Flood: some, Actors: []ActorReport{{Networks: 1, Work: 1, Figures: some}},
		Bloom: new(console.Bloom), Stamps: new(Stamps), Mail: new(Mail), Farm: new(Farm)}
	report := Report{Scenes: []SceneReport{{Half: h, Without: h, LimitPerSecond: 1, FloodLimit: 1, FloodNetworks: 1,
		Skipped: "why", Checks: []Check{{}}}}}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	want := []string{": scenes",
		"scenes[]: actors,bloom,checks,delayed,farm,flood,flood_limit,flood_networks,limit_per_second,mail,name,people,seconds,skipped,stamps,without",
		"scenes[].checks[]: ok,what"}
	for _, line := range half {
		want = append(want, "scenes[]."+line)
	}
	want = append(want, "scenes[].without: actors,bloom,delayed,farm,flood,mail,people,seconds,stamps")
	for _, line := range half {
		want = append(want, "scenes[].without."+line)
	}
	slices.Sort(want)
	got := keys("", tree)
	slices.Sort(got)
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// keys lists the keys of every object in a tree, by the path to it.
func keys(at string, tree any) (all []string) {
	switch tree := tree.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(tree))
		all = append(all, at+": "+strings.Join(names, ","))
		for _, name := range names {
			all = append(all, keys(strings.TrimPrefix(at+"."+name, "."), tree[name])...)
		}
	case []any:
		all = keys(at+"[]", tree[0])
	}
	return all
}

// TestPlain: what a pipe gets. How each scene is told is seen from its figures, elsewhere.
func TestPlain(t *testing.T) {
	tidy(t)
	var out bytes.Buffer
	r, err := run(t.Context(), scenes()[:2], Options{For: time.Second, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.ContainsRune(text, '\x1b') {
		t.Errorf("escape sequences in a pipe: %q", text)
	}
	for _, want := range []string{"  gate      http://127.0.0.1:", "/metrics\n",
		"curl -i -H 'X-Api-Key: you' http://127.0.0.1:",
		"without the throttle (", "with the throttle, for ", "mallory"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, s := range r.Scenes {
		wanted := []string{s.Name, s.Skipped}
		for _, a := range slices.Concat(s.Actors, s.Without.Actors) {
			wanted = append(wanted, a.Name, grouped(a.Sent))
		}
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}

func TestTerminal(t *testing.T) {
	needs.Unwatched(t)
	tidy(t)
	var out bytes.Buffer
	r, err := run(t.Context(), scenes()[:1], Options{For: time.Second, Out: &out, Terminal: true, Colour: true})
	if err != nil {
		t.Fatal(err)
	}
	text := out.String()
	shown := strings.LastIndex(text, escShow)
	if !strings.Contains(text, escHide) || shown < strings.LastIndex(text, escHide) {
		t.Errorf("the cursor was not hidden, or not given back:\n%q", text)
	}
	for _, want := range []string{"without the throttle, ", "with the throttle, ", "In shadow: ", "left."} {
		if !strings.Contains(text[:shown], want) {
			t.Errorf("no %q in the live table:\n%q", want, text)
		}
	}
	if strings.Contains(text[shown:], escBelow) ||
		!strings.Contains(text[shown:], "  "+r.Scenes[len(r.Scenes)-1].Actors[0].Name) {
		t.Errorf("the summary does not stay:\n%q", text[shown:])
	}
}

// TestNotSo: what must be so and is not ends in an error, after the report.
func TestNotSo(t *testing.T) {
	tidy(t)
	ctx, interrupt := context.WithCancel(t.Context())
	scene := shortScene(func(context.Context) Result {
		interrupt()
		return Served
	})
	scene.Checks = func(SceneReport) []Check { return []Check{{"the sun shines", true}, {"the moon shines", false}} }
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		r, err := run(ctx, []Scene{scene}, Options{For: time.Second, Out: &out, JSON: asJSON})
		if !errors.Is(err, ErrNotSo) || !strings.Contains(err.Error(), "moon") ||
			strings.Contains(err.Error(), "sun") || len(r.Scenes) != 1 {
			t.Errorf("%v, %+v", err, r)
		}
		want := "\n✓ the sun shines\n✗ the moon shines\n"
		if asJSON {
			want = `"ok": false`
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// shortScene has one actor, who does what it is told.
func shortScene(act func(context.Context) Result) Scene {
	return Scene{
		Name: "short",
		Setup: func(s *Stage) (config.Config, error) {
			cfg, err := setUpQuota(s)
			return cfg, err
		},
		Allows: func(Half) int64 { return 0 },
		Cast: []Actor{{Name: "ann", Role: People, Workers: 1, Pause: func(Result) time.Duration { return 0 },
			Enter: func(*Stage) (func(context.Context) Result, func()) { return act, func() {} }}},
		Tell: tellQuota,
	}
}

// TestInterrupted: the end comes while something is under way. It is finished and counted, and there is a report.
func TestInterrupted(t *testing.T) {
	tidy(t)
	ctx, interrupt := context.WithCancel(t.Context())
	act := func(work context.Context) Result {
		interrupt()
		if work.Err() != nil {
			return Failed
		}
		return Served
	}
	var out bytes.Buffer
	second := shortScene(act)
	second.Setup = setUpStamps
	// until interrupted
	r, err := run(ctx, []Scene{shortScene(act), second}, Options{Out: &out, Terminal: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Scenes) != 1 {
		t.Fatalf("%d scenes were played", len(r.Scenes))
	}
	if p := r.Scenes[0].Without.People; p.Sent != 1 || p.Served != 1 {
		t.Errorf("without: %+v", p)
	}
	if p := r.Scenes[0].People; p.Sent != 0 {
		t.Errorf("with: %+v", p)
	}
	if want := "stopped before the throttle was at work"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, &out)
	}
}

func TestFailedSetup(t *testing.T) {
	for name, setup := range map[string]func(*Stage) (config.Config, error){
		"by the scene": func(s *Stage) (config.Config, error) {
			_, err := s.Serve(http.NotFoundHandler())
			return config.Config{}, errors.Join(err, errors.New("no such thing"))
		},
		"by weir": func(s *Stage) (config.Config, error) {
			return config.Config{HTTP: []httpgate.Options{{Listen: "nowhere"}}}, nil
		},
		"without a throttle": func(s *Stage) (config.Config, error) {
			return config.Config{HTTP: []httpgate.Options{{Listen: loopback,
				Upstream: behind.To("http://127.0.0.1:1")}}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			tidy(t)
			s := shortScene(func(context.Context) Result { return Served })
			s.Setup = setup
			if _, err := run(t.Context(), []Scene{s}, Options{For: time.Second}); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestSkipped: a scene that cannot be played here is named, and the others have its time.
func TestSkipped(t *testing.T) {
	tidy(t)
	ctx, interrupt := context.WithCancel(t.Context())
	played := shortScene(func(context.Context) Result {
		interrupt()
		return Served
	})
	not := shortScene(nil)
	not.Name, not.Possible = "other", func() error { return errors.New("there is no moon") }
	var out bytes.Buffer
	r, err := run(ctx, []Scene{played, not}, Options{Out: &out, Terminal: true}) // the last one has an open end
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Scenes) != 2 || r.Scenes[0].Skipped != "there is no moon" || r.Scenes[0].Actors == nil ||
		r.Scenes[1].Skipped != "" {
		t.Errorf("report: %+v", r)
	}
	for _, want := range []string{"scene other is skipped: there is no moon\n\n", "Ctrl-C"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestParts(t *testing.T) {
	one := []*Scene{{}}
	two := []*Scene{{Weight: 1}, {Weight: 4, Preview: 0.5}}
	for _, test := range []struct {
		o    Options
		list []*Scene
		i    int
		want parts
	}{
		{Options{For: 20 * time.Second}, one, 0, parts{5 * time.Second, 15 * time.Second}},
		{Options{For: 20 * time.Second}, two, 0, parts{time.Second, 3 * time.Second}},
		{Options{For: 20 * time.Second}, two, 1, parts{8 * time.Second, 8 * time.Second}},
		{Options{}, one, 0, parts{DefaultFor / 4, DefaultFor * 3 / 4}}, // nobody watches
		{Options{Terminal: true}, one, 0, parts{preview, 0}},
		{Options{Terminal: true}, two, 0, parts{interlude / 4, interlude * 3 / 4}},
		{Options{Terminal: true}, two, 1, parts{preview, 0}},
		{Options{Terminal: true, JSON: true}, one, 0, parts{DefaultFor / 4, DefaultFor * 3 / 4}},
		{Options{For: 1}, one, 0, parts{1, 3}}, // never an open end
	} {
		if got := test.o.withDefaults().partsOf(test.list, test.i); got != test.want {
			t.Errorf("%+v, scene %d of %d: %v, want %v", test.o, test.i, len(test.list), got, test.want)
		}
	}
}

// TestScenesAreWhole: what every scene must bring.
func TestScenesAreWhole(t *testing.T) {
	known := map[string]bool{}
	for _, s := range scenes() {
		if s.Name == "" || known[s.Name] || s.Story == "" || strings.HasSuffix(s.Story, ".") || s.Rule == "" ||
			s.Weight <= 0 || s.Setup == nil || s.Tell == nil ||
			s.LimitPerSecond > 0 != (s.Allows != nil) {
			t.Errorf("scene %q lacks something", s.Name)
		}
		known[s.Name] = true
		roles := map[Role]bool{}
		for _, a := range s.Cast {
			roles[a.Role] = true
			if a.Name == "" || a.Workers <= 0 || a.Workers > 256 || a.Enter == nil || a.Pause == nil ||
				a.Pause(Failed) <= 0 {
				t.Errorf("scene %q: actor %q lacks something, or a bound", s.Name, a.Name)
			}
		}
		if !roles[People] || !roles[Flood] || len(roles) != 2 {
			t.Errorf("scene %q: roles %v", s.Name, roles)
		}
	}
}

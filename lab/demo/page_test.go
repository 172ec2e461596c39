package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// newHouse opens a house with some scenes.
func newHouse(t *testing.T, list ...Scene) *house {
	t.Helper()
	tidy(t)
	var all []*Scene
	for i := range list {
		all = append(all, &list[i])
	}
	h, err := openHouse(all, slog.New(slog.DiscardHandler), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	return h
}

// sees waits until a scene is as it should be.
func (h *house) sees(t *testing.T, scene string, so func(console.DemoScene) bool) console.DemoScene {
	t.Helper()
	var seen console.DemoScene
	needs.Wait(t, "the scene "+scene, func() bool {
		for _, s := range h.Scenes() {
			if s.Name == scene && so(s) {
				seen = s
				return true
			}
		}
		return false
	})
	return seen
}

func playing(what string) func(console.DemoScene) bool {
	return func(s console.DemoScene) bool { return s.Playing == what }
}

// refuses checks that an act is refused with a status.
func refuses(t *testing.T, what string, err error, code int) {
	t.Helper()
	if e, ok := errors.AsType[*console.Error](err); !ok || e.Code != code {
		t.Errorf("%s: %v, want %d", what, err, code)
	}
}

// TestVisitors: visitors flood a scene over the API, make people pay, and stop it. The script and they do not disturb
// each other.
func TestVisitors(t *testing.T) {
	cheap := stampScene()
	cheap.Setup = func(s *Stage) (config.Config, error) {
		cfg, err := setUpStamps(s)
		o := cfg.Throttles["stamps"].Stamp
		o.First, o.DoubleEvery = 64, new(weir.Duration(time.Hour)) // nobody fails to pay for want of a processor
		return cfg, err
	}
	h := newHouse(t, quotaScene(), cheap)
	h.flood, h.stay = time.Hour, time.Hour // they go when they are sent
	ctx, client := t.Context(), h.weir.control
	flood := func(scene string) error {
		_, err := console.DemoFloodCall.Ask(ctx, client, console.DemoWhich{Scene: scene})
		return err
	}
	stop := func(scene string) error {
		_, err := console.DemoStopCall.Ask(ctx, client, console.DemoWhich{Scene: scene})
		return err
	}
	pay := func(scene string, on bool) error {
		_, err := console.DemoPayCall.Ask(ctx, client, console.DemoPay{Scene: scene, On: on})
		return err
	}
	refuses(t, "no such scene", flood("moon"), http.StatusNotFound)
	refuses(t, "to stop nobody", stop("quota"), http.StatusConflict)
	refuses(t, "to pay where nobody asks", pay("quota", true), http.StatusBadRequest)
	refuses(t, "nobody who could pay", pay("stamps", true), http.StatusConflict)
	page, err := console.DemoShowCall.Ask(ctx, client, console.None{})
	if err != nil || len(page.Scenes) != 2 || page.Scenes[0].Playing != "" ||
		page.Scenes[0].Without.Gate == page.Scenes[0].With.Gate || len(page.Scenes[0].With.People.Passed) != 60 {
		t.Fatalf("%+v, %v", page, err)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	// People stay served on the side where the throttle is at work, and the flood is refused there alone.
	do(flood("quota"))
	do(flood("quota")) // it is there
	h.sees(t, "quota", func(s console.DemoScene) bool {
		return s.Playing == console.DemoFlooded && s.With.People.Served > 3 && s.With.Flood.Refused > 100 &&
			s.Without.Flood.Served > 100
	})
	do(stop("quota"))
	s := h.sees(t, "quota", playing(console.DemoPeople))
	if s.With.People.Served != s.With.People.Sent || s.Without.Flood.Refused != 0 {
		t.Errorf("%+v", s)
	}

	// People wait in line, until they are made to pay. There is one flood at a time.
	do(flood("quota"))
	do(flood("stamps"))
	h.sees(t, "quota", playing(console.DemoPeople))
	stage := h.pairOf("stamps").with.stage
	paid := func() int64 { return spendingOf(stage).people.Load() }
	h.sees(t, "stamps", func(s console.DemoScene) bool {
		return s.With.People.Served > 0 && s.Without.Flood.Failed > 0 && !s.Paying && s.Pays
	})
	if paid() != 0 {
		t.Error("people paid before they were told to")
	}
	do(pay("stamps", true))
	h.sees(t, "stamps", func(s console.DemoScene) bool { return s.Paying && paid() > 0 })
	do(pay("stamps", false))
	h.sees(t, "stamps", func(s console.DemoScene) bool { return !s.Paying })

	// The script takes the scene, and visitors have to wait.
	p := h.pairOf("stamps")
	h.claim(p)
	if p.called != nil || spendingOf(stage).thrifty.Load() {
		t.Error("visitors disturb the script")
	}
	refuses(t, "the script plays", flood("stamps"), http.StatusConflict)
	h.sees(t, "stamps", playing(console.DemoScripted))
	h.yield(p)
	do(stop("quota")) // the people go home
	h.sees(t, "quota", playing(console.DemoNobody))
}

// TestVisitorsAreBounded: a flood ends by itself, and so do the people; nothing of them is left at the end.
func TestVisitorsAreBounded(t *testing.T) {
	h := newHouse(t, quotaScene())
	h.flood, h.stay = time.Millisecond, time.Millisecond
	for range 2 {
		if err := h.Flood("quota"); err != nil {
			t.Fatal(err)
		}
		h.sees(t, "quota", playing(console.DemoNobody))
	}
	h.flood = time.Hour
	if err := h.Flood("quota"); err != nil {
		t.Fatal(err)
	}
	h.close()
	refuses(t, "the house is closed", h.Flood("quota"), http.StatusConflict)
	if len(h.Scenes()) != 0 {
		t.Error("there are scenes in a closed house")
	}
}

// TestHousesThatFail: scenes that do not go together leave nothing behind.
func TestHousesThatFail(t *testing.T) {
	tidy(t)
	one, other := bloomScene(), bloomScene()
	other.Setup = func(s *Stage) (config.Config, error) {
		cfg, err := setUpBloom(s)
		cfg.Throttles = nil
		return cfg, err
	}
	quota := quotaScene()
	for name, list := range map[string][]*Scene{"two throttles of a name": {&quota, &quota}, "two APIs": {&one, &other}} {
		if _, err := openHouse(list, slog.New(slog.DiscardHandler), ""); err == nil ||
			!strings.Contains(err.Error(), "another scene") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAddress: the address lets in who has it, on this machine, and nobody else. What changes something needs a form of
// the page.
func TestAddress(t *testing.T) {
	h := newHouse(t, quotaScene())
	address, err := url.Parse(h.address())
	if err != nil || address.Hostname() != "127.0.0.1" || len(address.Query().Get("key")) < 20 {
		t.Fatalf("%v, %v", address, err)
	}
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(at string) (int, string, *url.URL) {
		t.Helper()
		resp, err := client.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text), resp.Request.URL
	}
	root := "http://" + address.Host
	for _, wrong := range []string{"", "?key=", "?key=" + strings.Repeat("A", 26), "?key=" + strings.Repeat("A", 9999)} {
		if code, text, _ := get(root + "/enter" + wrong); code != http.StatusForbidden || strings.Contains(text, "Flood now") {
			t.Errorf("%.40s: %d %s", wrong, code, text)
		}
	}
	if _, text, at := get(root + "/demo"); at.Path != "/login" || strings.Contains(text, "Flood now") {
		t.Errorf("a stranger is at %s", at)
	}
	for range 2 { // it lives as long as the demo
		code, text, at := get(address.String())
		if code != http.StatusOK || at.String() != root+"/demo" || !strings.Contains(text, "Flood now") {
			t.Errorf("%d at %s: %s", code, at, text)
		}
	}
	for _, c := range jar.Cookies(address) {
		if !strings.HasPrefix(c.Name, "demo_") {
			t.Errorf("the cookie %s would replace that of another weir", c.Name)
		}
	}
	for path, form := range map[string]url.Values{
		"/do/demo-flood":     {"scene": {"quota"}},
		"/api/v1/demo/flood": {},
	} {
		resp, err := client.Post(root+path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("without a token, %s: %d", path, resp.StatusCode)
		}
	}
	req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, address.String(), nil)
	req.Host = "demo.example"
	if resp, err := client.Do(req); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign host: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	if s := h.Scenes()[0]; s.Playing != "" {
		t.Errorf("somebody has called a flood: %+v", s)
	}
}

// TestDemoInBrowser: somebody opens the address and floods a scene, first with scripts and then without. People stay
// served where the throttle is at work, the flood is refused there, and the page shows it. What the page looks like is
// for the tests of console.
func TestDemoInBrowser(t *testing.T) {
	needs.Unwatched(t)
	p := browser.Open(t) // before the house has a temporary folder of its own
	h := newHouse(t, quotaScene(), stampScene(), mailScene())
	demo := "http://" + h.weir.weir.ConsoleAddr().String() + "/demo"
	h.flood, h.stay = time.Hour, time.Hour
	p.Show(browser.Screens[1])
	if status, _ := p.Visit(h.address()); status != http.StatusOK || !strings.HasSuffix(p.Location(), "/demo") {
		t.Fatalf("%d at %s", status, p.Location())
	}
	reads := func(text string) {
		t.Helper()
		p.Wait(fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)", text))
	}
	button := func(act, scene string) string {
		return fmt.Sprintf("section[aria-labelledby=%s] form[action*=demo-%s] button", scene, act)
	}
	reads("Nobody is here.")
	for _, scripts := range []bool{true, false} {
		p.Scripts(scripts)
		p.Visit(demo)
		before := h.sees(t, "quota", playing(console.DemoNobody))
		p.Click(button("flood", "quota"))
		reads("The flood comes to quota.")
		if at := p.Location(); !strings.HasSuffix(at, "#quota") {
			t.Errorf("the page begins again at its top: %s", at)
		}
		after := h.sees(t, "quota", func(s console.DemoScene) bool {
			return s.With.People.Served > 5 && s.With.Flood.Refused > 100 && s.Without.Flood.Served > 100
		})
		if people := after.With.People; people.Refused+people.Failed > 0 || before.Playing != "" {
			t.Errorf("people were not served: %+v", people)
		}
		if !scripts {
			p.Visit(demo) // a page without scripts loads itself again after some seconds
		}
		p.Wait("/[1-9][0-9]* refused by weir/.test(document.querySelector('.with').innerText)")
		if text := p.Text(".without"); strings.Contains(text, "refused by weir") {
			t.Errorf("in shadow: %s", text)
		}
		if scripts {
			// of people and of the flood; on a fast machine all people are served on both sides
			const lines = "[...document.querySelectorAll('%s path.line.refused')].map(l => l.getAttribute('d')).join()"
			p.Wait(fmt.Sprintf(lines, ".with") + " !== " + fmt.Sprintf(lines, ".without"))
		}
		p.Click(button("stop", "quota"))
		reads("They leave quota.")
		h.sees(t, "quota", playing(console.DemoPeople))
		if scripts {
			reads("The flood is gone.")
		} else {
			p.Visit(demo)
		}
		p.Click(button("stop", "quota"))
		h.sees(t, "quota", playing(console.DemoNobody))
	}
	p.Scripts(true)
	p.Visit(demo)
	p.Click(button("flood", "stamps"))
	reads("do not pay")
	p.Click(button("pay", "stamps"))
	reads("From now on people pay.")
	h.sees(t, "stamps", func(s console.DemoScene) bool { return s.Paying && s.With.People.Served > 0 })
}

package demo

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/throttle/outbreak"
)

// atPost sets the stage of the scene, with a clock that stands still for the throttle while a test runs.
func atPost(t *testing.T, atWork bool) (*Stage, *post, *results) {
	t.Helper()
	tidy(t)
	scene := mailScene()
	scene.Setup = func(s *Stage) (config.Config, error) {
		cfg, err := setUpMail(s)
		cfg.Throttles["outgoing"].Mail.Rate = weir.Rate{Count: 1, Per: time.Hour}
		return cfg, err
	}
	var warnings strings.Builder
	s, err := setStage(&scene, slog.New(slog.NewTextHandler(&warnings, &slog.HandlerOptions{Level: slog.LevelWarn})),
		"")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.close()
		if warnings.Len() > 0 {
			t.Errorf("weir warns: %s", &warnings)
		}
	})
	if err := s.throttle(atWork); err != nil {
		t.Fatal(err)
	}
	s.length = time.Second
	seen := new(results)
	for i, a := range scene.Cast {
		a.Later(s, seen.of(i))
		a.Enter(s)
	}
	return s, s.Props.(*post), seen
}

// results are what was told later, by actor.
type results struct {
	mu  sync.Mutex
	all [forAll][]Result
}

func (r *results) of(who int) telling {
	return func(became Result, _ time.Duration, _ time.Time) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all[who] = append(r.all[who], became)
	}
}

func (r *results) served(who int) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, became := range r.all[who] {
		if became == Served {
			n++
		}
	}
	return n
}

// rob lets the thief and the owner write until the thief is refused, or has sent so many.
func rob(t *testing.T, p *post, most int) (taken, own int) {
	t.Helper()
	for taken < most {
		switch p.own(t.Context()) {
		case Held:
			own++
		case Nothing:
		default:
			t.Fatal("a mail of the owner was not taken")
		}
		switch r := p.spam(t.Context()); r {
		case Held:
			taken++
		case Refused:
			return taken, own
		case Nothing:
		default:
			t.Fatalf("the thief: %d", r)
		}
	}
	return taken, own
}

// TestMailStory: one mail gets out, the account is stopped, and the owner gets their own mails out.
func TestMailStory(t *testing.T) {
	s, p, seen := atPost(t, true)
	taken, own := rob(t, p, 1000)
	if want := 1 + outbreak.DefaultStop + 1 - mailOwn; taken != want || own != mailOwn {
		t.Errorf("%d mails of the thief were taken, want %d, and %d of the owner", taken, want, own)
	}
	if r := p.spam(t.Context()); r != Refused {
		t.Errorf("the thief goes on: %d", r)
	}
	for i := range 20 {
		if r := p.chat(t.Context()); r != Held {
			t.Errorf("mail %d of people: %d", i, r)
		}
		if r := p.publish(t.Context()); r != Held {
			t.Errorf("newsletter %d: %d", i, r)
		}
	}
	p.finish()
	m := p.report()
	if m.Stopped == nil || *m.Stopped < 0 {
		t.Fatalf("it was not stopped: %+v", m)
	}
	got := *m
	got.Stopped, got.Late = nil, 0
	want := Mail{Thefts: 1, SpamOut: 1, SpamHeld: int64(taken) - 1, Own: mailOwn, Deleted: taken - 1, Released: mailOwn,
		Arrived: mailOwn, Resumed: true, Shut: true}
	if got != want {
		t.Errorf("report: %+v\nwant    %+v", got, want)
	}
	if got := [...]int{seen.served(forPeople), seen.served(forNews), seen.served(forOwner),
		seen.served(forThief)}; got != [...]int{20, 20, mailOwn, 1} {
		t.Errorf("arrived: %v", got)
	}
	told := strings.Join(s.noted(), "\n")
	for _, want := range []string{"is stolen", "is stopped: 1 of", "gets a notice at frank@home.example", "/t/",
		"release 5-6, delete 1-4 7-21, resume", "can send again", "gives up"} {
		if !strings.Contains(told, want) {
			t.Errorf("nothing was told of %q:\n%s", want, told)
		}
	}
	if r := p.spam(t.Context()); r != Nothing {
		t.Errorf("the thief tries again: %d", r)
	}
}

// TestMailInShadow: everything gets out, and nobody is told anything.
func TestMailInShadow(t *testing.T) {
	_, p, seen := atPost(t, false)
	taken, own := rob(t, p, 2*outbreak.DefaultStop)
	p.finish()
	if got := *p.report(); got != (Mail{Thefts: 1, SpamOut: int64(taken), Late: got.Late}) {
		t.Errorf("report: %+v", got)
	}
	if seen.served(forThief) != 2*outbreak.DefaultStop || seen.served(forOwner) != own || own != mailOwn {
		t.Errorf("arrived: %d of the thief's, %d of the owner's", seen.served(forThief), seen.served(forOwner))
	}
}

// TestMailTooShort: where the time is not enough, the owner has nothing to do.
func TestMailTooShort(t *testing.T) {
	_, p, _ := atPost(t, true)
	taken, own := rob(t, p, mailOwnAt+3)
	p.finish()
	if got := *p.report(); got != (Mail{Thefts: 1, SpamOut: 1, SpamHeld: int64(taken) - 1, Late: got.Late}) ||
		own != mailOwn {
		t.Errorf("report: %+v", got)
	}
}

// TestVisitor: somebody who watches may act on the page before the owner does.
func TestVisitor(t *testing.T) {
	s, p, _ := atPost(t, true)
	taken, _ := rob(t, p, 1000)
	th := p.current()
	if !th.will(func(t *theft) bool { return t.notice != nil }) {
		t.Fatal("no notice")
	}
	if _, err := console.QueueReleaseCall.Ask(t.Context(), s.control, orderAll(th.owner.name)); err != nil {
		t.Fatal(err)
	}
	p.finish()
	m := p.report()
	if m.SpamOut != int64(taken) || m.Released != 0 || m.Arrived != mailOwn || m.visitors != int64(taken-1+mailOwn) {
		t.Errorf("report: %+v", m)
	}
	r := SceneReport{Half: Half{Flood: Figures{Sent: int64(taken) + 1, Served: int64(taken), Refused: 1}, Mail: m}}
	r.FloodLimit = mailAllows(r.Half)
	for _, c := range checkMail(r) {
		if !c.OK {
			t.Errorf("not so: %s", c.What)
		}
	}
}

// TestAnotherTheft: where the end is open another account is stolen, when the story of the first is over.
func TestAnotherTheft(t *testing.T) {
	_, p, _ := atPost(t, true)
	now := time.Now()
	first := p.steal(now)
	if p.steal(now.Add(10*round)) != first {
		t.Error("the first story is not over yet")
	}
	first.over, first.out = true, 2
	if p.steal(now.Add(round/2)) != first {
		t.Error("the round is not over yet")
	}
	second := p.steal(now.Add(round))
	if second == first || second.owner == first.owner {
		t.Error("nobody else")
	}
	if got := p.report(); got.Thefts != 2 || got.SpamOut != 2 {
		t.Errorf("report: %+v", got)
	}
}

// TestPeoplesPace: whoever writes as people of the scene do is never delayed, however long it goes on.
func TestPeoplesPace(t *testing.T) {
	options := outbreak.Options{Rate: weir.Rate{Count: 1, Per: mailPeriod}}.WithDefaults()
	params, err := options.Params("alice", "")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	w, state, numbers := newWriter("alice"), outbreak.State{}, map[string]uint64{}
	several := 0
	for now := time.Unix(1_000_000_000, 0); now.Before(time.Unix(1_000_003_600,
		0)); now = now.Add(time.Duration(random.Int64N(int64(2 * time.Second)))) {
		to := w.next(now)
		keys, at, place := make([]uint64, len(to)), make([]int, len(to)), make([]outbreak.Fate, len(to))
		for i, address := range to {
			if numbers[address] == 0 {
				numbers[address] = uint64(len(numbers) + 1)
			}
			keys[i], at[i] = numbers[address], i
		}
		state.Tick(&params, now, nil)
		state.Submit(&params, now, uint64(w.written), keys, at, place)
		for i := range place {
			if place[i] != outbreak.Pass {
				t.Fatalf("mail %d, to %d, at %s is delayed", w.written, len(to), now)
			}
		}
		if len(to) > 1 {
			several++
		}
	}
	if several < 10 || len(w.friends) != knownMost {
		t.Errorf("%d mails to several, %d friends: a dull life", several, len(w.friends))
	}
}

func aMailReport() SceneReport {
	after := 0.48
	return SceneReport{
		Name: "mail", LimitPerSecond: 0.1, FloodLimit: 2,
		Half: Half{
			People: Figures{84, 84, 0, 0, 5.2, 2013, 0}, Flood: Figures{77, 1, 57, 0, 30, 30, 19}, Seconds: 4.52,
			Delayed: 21,
			Actors: []ActorReport{{"people", People, 0, Figures{43, 43, 0, 0, 6.4, 51, 0}, 0},
				{"newsletter", People, 0, Figures{39, 39, 0, 0, 5.8, 40, 0}, 0},
				{"owner", People, 0, Figures{2, 2, 0, 0, 1994, 2013, 0}, 0},
				{"thief", Flood, 0, Figures{77, 1, 57, 0, 30, 30, 19}, 0}},
			Mail: &Mail{Thefts: 1, SpamOut: 1, SpamHeld: 19, Stopped: &after, Own: 2, Deleted: 19, Released: 2,
				Arrived: 2, Resumed: true, Shut: true},
		},
		Without: Half{
			People: Figures{23, 23, 0, 0, 6.1, 62, 0}, Flood: Figures{32, 32, 0, 0, 8, 40, 0}, Seconds: 1.52,
			Actors: []ActorReport{{"people", People, 0, Figures{10, 10, 0, 0, 6.1, 62, 0}, 0},
				{"newsletter", People, 0, Figures{11, 11, 0, 0, 7, 48, 0}, 0},
				{"owner", People, 0, Figures{2, 2, 0, 0, 9, 12, 0}, 0},
				{"thief", Flood, 0, Figures{32, 32, 0, 0, 8, 40, 0}, 0}},
			Mail: &Mail{Thefts: 1, SpamOut: 32},
		},
	}
}

func TestMailSummary(t *testing.T) {
	scene, r := mailScene(), aMailReport()
	r.Checks = checkMail(r)
	for _, width := range []int{0, 50} {
		golden(t, fmt.Sprintf("summary-mail-%d.txt", width), strings.Join(summary(&scene, &r, width, false), "\n")+"\n")
	}
}

func TestTellMail(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*SceneReport)
		want   string
	}{
		"stopped":   {func(r *SceneReport) { r.Flood = Figures{} }, "stopped before the throttle was at work"},
		"too short": {func(r *SceneReport) { r.Mail.Stopped = nil }, "In so short a time the account was not stopped"},
		"late":      {func(r *SceneReport) { r.Mail.Late = 3 }, "Of all these, 3 took longer"},
	} {
		r := aMailReport()
		test.change(&r)
		scene := mailScene()
		if told := strings.Join(scene.tell(r), " "); !strings.Contains(told, test.want) {
			t.Errorf("%s: no %q in %q", name, test.want, told)
		}
	}
}

// TestCheckMail: what must be so is found out when it is not.
func TestCheckMail(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*SceneReport)
		checks int
		wrong  string
	}{
		"all is well":   {func(r *SceneReport) {}, 4, ""},
		"nothing":       {func(r *SceneReport) { r.Flood = Figures{} }, 0, ""},
		"too short":     {func(r *SceneReport) { r.Mail.Stopped, r.Mail.Resumed = nil, false }, 2, ""},
		"lost":          {func(r *SceneReport) { r.Actors[1].Served-- }, 4, "all mail of people"},
		"an outbreak":   {func(r *SceneReport) { r.Flood.Served = r.FloodLimit + 1 }, 4, "the thief got out"},
		"not released":  {func(r *SceneReport) { r.Mail.Arrived-- }, 4, "what the owner released"},
		"twice":         {func(r *SceneReport) { r.Mail.Again++ }, 4, "what the owner released"},
		"still stopped": {func(r *SceneReport) { r.Mail.Resumed = false }, 4, "the owner can send"},
		"thief inside":  {func(r *SceneReport) { r.Mail.Shut = false }, 4, "the owner can send"},
	} {
		r := aMailReport()
		test.change(&r)
		r.Checks = checkMail(r)
		wrong := ""
		for _, c := range r.Checks {
			if !c.OK {
				wrong += c.What
			}
		}
		if len(r.Checks) != test.checks || !strings.HasPrefix(wrong, test.wrong) ||
			(wrong == "") != (test.wrong == "") {
			t.Errorf("%s: %d checks, wrong: %q", name, len(r.Checks), wrong)
		}
		if err := (&Report{Scenes: []SceneReport{r}}).notSo(); (err == nil) != (test.wrong == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMailFigures: what the figures of the scene rest upon.
func TestMailFigures(t *testing.T) {
	for what, ok := range map[string]bool{
		"the owner writes after the credit is spent, and before the stop": mailOwnAt > outbreak.DefaultMaxSlack+
			mailThieves-1 && mailOwnAt+mailThieves+mailOwn < outbreak.DefaultStop,
		"credit for somebody new is back": meetEvery > mailPeriod,
		"credit for several is back": inviteSize <= outbreak.DefaultMaxMSlack &&
			inviteSize < int(inviteEvery/mailPeriod),
		"friends stay in the working set":             knownMost <= outbreak.DefaultWorkingSet,
		"the thief fills the queue within one period": mailSpam > 4*outbreak.DefaultStop,
		"there is time to look at the page":           readOpen < round/2,
		"one account is stolen while another rests":   mailPeople >= mailWriters && len(newPost(nil).owners) > 1,
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
}

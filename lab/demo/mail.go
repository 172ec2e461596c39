package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/gate/smtpgate"
	"weir/mail/nexthop"
	"weir/throttle/outbreak"
)

// The figures of the scene.
//
// The throttle has its default figures, but a minute takes ten seconds: long enough to see the stolen account being
// stopped, and short enough to see the whole story. The thief is as fast as a real virus was, by the same clock.
const (
	mailPeriod = 10 * time.Second // stands for a minute
	mailSpam   = 455              // mails of the thief in it

	mailPeople  = 5
	mailWriters = 3 // of them at a time
	mailThieves = 4 // sessions of the thief
	mailOwn     = 2 // mails of the owner that are caught among the others
	mailOwnAt   = 5 // when the thief has sent so many

	mailLate = time.Second // what people notice
)

// mailScene: the mail of each user reaches new recipients only so fast. A stolen account is slowed at once and stopped
// within seconds, nothing is lost, and its owner decides what happens to the held mail. People who write as people do
// notice nothing.
func mailScene() Scene {
	rest := func(least, more time.Duration) func(Result) time.Duration {
		return func(Result) time.Duration { return least + rand.N(more) }
	}
	const thief = mailThieves * mailPeriod / mailSpam // of which a mail takes a tenth
	return Scene{
		Name: "mail",
		Story: "people write mail, one account is stolen and stopped, and its owner releases what is theirs; " +
			"ten seconds stand for a minute",
		Weight: 6,
		Rule: fmt.Sprintf("A minute takes %.0f s here: 1 new address each, %d may wait.",
			mailPeriod.Seconds(), outbreak.DefaultStop),
		LimitPerSecond: 1 / mailPeriod.Seconds(),
		Allows:         mailAllows,
		Setup:          setUpMail,
		Ready:          func(s *Stage) error { return postOf(s).ready() },
		Expects:        []string{"a user is stopped"},
		Cast: []Actor{
			{Name: "people", Role: People, Workers: mailWriters, Enter: enter((*post).chat),
				Later: later(forPeople), Pause: rest(100*time.Millisecond, 300*time.Millisecond)},
			{Name: "newsletter", Role: People, Workers: 1, Enter: enter((*post).publish), Later: later(forNews),
				Pause: rest(60*time.Millisecond, 60*time.Millisecond)},
			{Name: "owner", Role: People, Workers: 1, WithFlood: true, Enter: enter((*post).own),
				Later: later(forOwner), Pause: rest(20*time.Millisecond, 10*time.Millisecond)},
			{Name: "thief", Role: Flood, Workers: mailThieves, Enter: enterThief,
				Later: later(forThief), Turn: thiefTurn, Pause: rest(thief*8/10, thief*2/10)},
		},
		Try: func(s *Stage) []string {
			return []string{
				fmt.Sprintf("weir queue list --control %s", quoted(s.ControlPath())),
				fmt.Sprintf("weir user list --control %s", quoted(s.ControlPath())),
			}
		},
		Mail:   func(s *Stage) *Mail { return postOf(s).report() },
		Tell:   tellMail,
		Checks: checkMail,
	}
}

// thiefTurn lets people come first.
func thiefTurn(_ bool, half time.Duration) Span { return Span{half * 15 / 100, half} }

// mailAllows: for each stolen account a credit of one, and one for each period that the half touches. Visitors may
// release more.
func mailAllows(h Half) int64 {
	if h.Mail == nil {
		return 0
	}
	return h.Mail.Thefts*(2+int64(min(h.Seconds, round.Seconds())/mailPeriod.Seconds())) + h.Mail.visitors
}

func setUpMail(s *Stage) (config.Config, error) {
	p := newPost(s)
	s.Props = p
	next, err := p.sink.serve(s)
	if err != nil {
		return config.Config{}, err
	}
	pages, err := s.Serve(&p.pages)
	if err != nil {
		return config.Config{}, err
	}
	return config.Config{
		SMTP: []smtpgate.Options{{
			Listen: loopback, Hostname: mailHost, NextHop: nexthop.Options{Servers: []string{next}},
			Throttles: []string{"outgoing"},
			Command:   mailCommand, Admin: mailAdmin,
		}},
		SelfService: console.SelfServiceOptions{Listen: loopback, URL: pages},
		Throttles: map[string]config.Throttle{"outgoing": {Mail: &outbreak.Options{
			Rate: weir.Rate{Count: 1, Per: mailPeriod}, Exempt: []string{p.news.name},
		}}},
	}, nil
}

// A Mail is what became of mail in one half. Where several accounts were stolen, the figures are about the last one.
type Mail struct {
	Late     int64 `json:"late"`      // mails of people that took longer than a second
	Thefts   int64 `json:"thefts"`    // accounts that were stolen
	SpamOut  int64 `json:"spam_out"`  // mails of the thief that got out; the most of an account
	SpamHeld int64 `json:"spam_held"` // that were taken and held
	// how long after the first of them the account was stopped; null: it was not
	Stopped  *float64 `json:"stopped_after_s"`
	Own      int      `json:"own_caught"`       // mails of the owner that were held with them
	Deleted  int      `json:"deleted"`          // mails that the owner deleted
	Released int      `json:"released"`         // and released
	Arrived  int      `json:"released_arrived"` // of those, how many arrived
	Again    int      `json:"arrived_again"`    // and how often one arrived once more
	Resumed  bool     `json:"resumed"`          // the owner can send again
	Shut     bool     `json:"thief_shut_out"`   // the password that was stolen is worth nothing any more

	visitors int64 // mails that somebody else released
}

func checkMail(r SceneReport) []Check {
	m := r.Mail
	if m == nil || r.Flood.Sent == 0 {
		return nil
	}
	people, news := actor(r.Half, "people"), actor(r.Half, "newsletter")
	all := []Check{
		{"all mail of people and of the newsletter has arrived", people.Served+news.Served == people.Sent+news.Sent},
		{"the thief got out no more than the limit allows", r.Flood.Served <= r.FloodLimit},
	}
	if m.Stopped == nil {
		return all // there was no time for the rest of the story
	}
	return append(all, Check{fmt.Sprintf("what the owner released has arrived once: %d of %d", m.Arrived, m.Released),
		m.Arrived >= m.Released && m.Again == 0},
		Check{"the owner can send again, and the thief cannot", m.Resumed && m.Shut},
	)
}

func tellMail(r SceneReport) []string {
	m := r.Mail
	var told []string
	if without := r.Without; without.Flood.Sent > 0 {
		told = append(told,
			fmt.Sprintf("Without the throttle, the thief sent %s messages with a stolen password, and %s got out.",
				grouped(without.Flood.Sent), grouped(without.Flood.Served)))
	}
	people, news := actor(r.Half, "people"), actor(r.Half, "newsletter")
	told = append(told, tellStolen(r, m))
	if m.Stopped != nil {
		told = append(told,
			fmt.Sprintf("The owner was told at another of their addresses. They changed the password on the page, answered "+
				"the notice, and so deleted "+
				"%d messages, released the %d that were their own, which have arrived, and can send again.", m.Deleted,
				m.Released))
	}
	late := "none"
	if m.Late > 0 {
		late = grouped(m.Late)
	}
	return append(told,
		fmt.Sprintf("People, who write to those they know, had %s of their %s messages delivered, half of those within "+
			"%s; the newsletter, which is "+
			"exempt and writes to somebody new each time, %s of %s. Of all these, %s took longer than %s.",
			grouped(people.Served), grouped(people.Sent),
			milliseconds(people.P50), grouped(news.Served), grouped(news.Sent), late, seconds(mailLate.Seconds())))
}

func tellStolen(r SceneReport, m *Mail) string {
	if m.Stopped == nil {
		return fmt.Sprintf("With it, %s of the thief's %s messages got out, and %s waited. In so short a time the "+
			"account was not stopped; a longer run shows more.",
			grouped(r.Flood.Served), grouped(r.Flood.Sent), grouped(r.Flood.Held))
	}
	return fmt.Sprintf("With it, the stolen account was stopped after %s, which stand for %s: %d of the thief's "+
		"messages got out, %d were held, and all "+
		"others were refused.", seconds(*m.Stopped), seconds(*m.Stopped*float64(time.Minute/mailPeriod)), m.SpamOut,
		m.SpamHeld)
}

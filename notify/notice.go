package notify

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// An Event is what people are told of.
type Event string

// The events.
const (
	Attack      Event = "attack"       // a gate turns clients away for the load, or many networks are far over their limit
	UserStopped Event = "user_stopped" // a mail user may not send
	UserFlagged Event = "user_flagged" // an account writes to new people as if it were stolen
	Collateral  Event = "collateral"   // a Bloom limiter refuses more innocent networks than planned
	Disk        Event = "disk"         // the data folder cannot be written, or is nearly full
	Certificate Event = "certificate"  // a certificate ends soon
	NodeLost    Event = "node_lost"    // a node of the farm is not heard any more
	Test        Event = "test"         // an operator tries whether it arrives
)

// Events are all events that a target can be told of.
var Events = []Event{Attack, UserStopped, UserFlagged, Collateral, Disk, Certificate, NodeLost}

func words() (all []string) {
	for _, e := range Events {
		all = append(all, string(e))
	}
	return all
}

// A Notice is one thing that people are told.
type Notice struct {
	Event Event     `json:"event"`
	Over  bool      `json:"over"`            // it was told before, and is over
	Time  time.Time `json:"time"`            // when it was noticed
	Node  string    `json:"node"`            // where
	About string    `json:"about,omitempty"` // the gate, user, throttle, file or node
	Text  string    `json:"text"`            // a sentence for people
}

// maxText bounds what a notice says: names come from outside.
const maxText = 500

// clean makes a text one line of bounded length that can be shown anywhere.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

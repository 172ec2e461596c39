package notify

import (
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"weir"
	"weir/mail/nexthop"
)

// Bounds on what an operator may write.
const (
	MaxTargets = 16
	MaxTo      = 20
	maxURL     = 2048
	minSecret  = 16
	maxSecret  = 256
)

// Options are a list of targets.
type Options []Target

// A Target is somebody who is told. It has a webhook or an address for mail.
type Target struct {
	// A service that is told by a POST with JSON.
	Webhook *Webhook `yaml:"webhook"`
	// People who are told by mail.
	Mail *Mail `yaml:"mail"`
	// What it is told of: attack, user_stopped, user_flagged, collateral, disk, certificate, node_lost. Default: all.
	Events []Event `yaml:"events"`
}

// A Webhook is where a POST goes.
type Webhook struct {
	// Its address: https://hooks.example.com/weir.
	URL string `yaml:"url"`
	// The secret that signs what is sent, of at least 16 characters. Take it from a file or the environment:
	// ${file:/etc/weir/webhook}.
	Secret string `yaml:"secret"`
}

// Mail is where mail goes.
type Mail struct {
	// Who gets it.
	To []string `yaml:"to"`
	// The sender's address. Default: weir at the name of this machine.
	From string `yaml:"from"`
	// The server that takes the mail: 127.0.0.1:25.
	NextHop nexthop.Options `yaml:"next_hop"`
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var m weir.Mistakes
	m.AtMost("", "targets", len(o), MaxTargets)
	for i := range o {
		m.Under(fmt.Sprintf("[%d]", i), o[i].Validate())
	}
	return m.Err()
}

// Validate returns every mistake in a target.
func (t *Target) Validate() error {
	var m weir.Mistakes
	switch {
	case t.Webhook == nil && t.Mail == nil:
		m.Add("", "it names nobody to tell", "add webhook: {url: …, secret: …} or mail: {to: […], next_hop: …}")
	case t.Webhook != nil && t.Mail != nil:
		m.Add("mail", "a target has a webhook or mail, not both", "make two targets of it")
	}
	if t.Webhook != nil {
		t.Webhook.validate(&m)
	}
	if t.Mail != nil {
		t.Mail.validate(&m)
	}
	for i, e := range t.Events {
		m.OneOf(fmt.Sprintf("events[%d]", i), string(e), words()...)
		if e == "" || slices.Index(t.Events, e) < i {
			m.Add(fmt.Sprintf("events[%d]", i), fmt.Sprintf("%q is there twice, or empty", string(e)), "leave it out")
		}
	}
	return m.Err()
}

func (w *Webhook) validate(m *weir.Mistakes) {
	u, err := url.Parse(w.URL)
	wrong := weir.CheckURL(u)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(w.URL) > maxURL:
		m.Add("webhook.url", "this is not the address of a webhook", "write https://hooks.example.com/weir")
	case wrong != nil:
		m.Add("webhook.url", wrong.Error(), "write https://hooks.example.com/weir")
	case u.User != nil:
		m.Add("webhook.url", "a password in an address is easily shown to others", "leave it out: what is sent is signed")
	}
	if n := len(w.Secret); n < minSecret || n > maxSecret {
		m.Add("webhook.secret", fmt.Sprintf("a secret has %d to %d characters", minSecret, maxSecret),
			"openssl rand -hex 32 makes one")
	}
}

func (t *Mail) validate(m *weir.Mistakes) {
	if len(t.To) == 0 {
		m.Add("mail.to", "nobody gets the mail", "write to: [ops@example.com]")
	}
	m.AtMost("mail.to", "recipients", len(t.To), MaxTo)
	for i, to := range t.To {
		if !isAddress(to) {
			m.Add(fmt.Sprintf("mail.to[%d]", i), fmt.Sprintf("%.64q is not a mail address", to), "write ops@example.com")
		}
	}
	if t.From != "" && !isAddress(t.From) {
		m.Add("mail.from", fmt.Sprintf("%.64q is not a mail address", t.From), "write weir@example.com")
	}
	if len(t.NextHop.Servers) == 0 {
		m.Add("mail.next_hop", "no server takes the mail", "write next_hop: 127.0.0.1:25")
		return
	}
	m.Under("mail.next_hop", t.NextHop.Validate())
}

// isAddress reports whether a text is an address alone, without a name before it.
func isAddress(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text && !strings.ContainsAny(text, "\r\n \t<>\"") && len(text) <= 254
}

// wants reports whether a target is told of an event.
func (t *Target) wants(e Event) bool {
	return e == Test || len(t.Events) == 0 || slices.Contains(t.Events, e)
}

// String is what a target is called in status and log: never with a secret, nor with what follows the host of a
// webhook, which often is one.
func (t *Target) String() string {
	if t.Webhook != nil {
		u, err := url.Parse(t.Webhook.URL)
		if err != nil {
			return "webhook"
		}
		return "webhook " + u.Scheme + "://" + u.Host
	}
	return "mail to " + strings.Join(t.Mail.To, ", ")
}

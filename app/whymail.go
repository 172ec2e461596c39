package app

import (
	"context"
	"fmt"
	"slices"

	"weir"
	"weir/config"
	"weir/console"
	"weir/gate/smtpgate"
	"weir/policy"
)

// nullSender is how a question says that a mail has no sender.
const nullSender = "<>"

// whyMail asks what a gate for mail would make of a mail: its chains, and the throttles that the spool runs.
func (b backend) whyMail(gt *gate, q console.Question) (console.Explanation, error) {
	user := b.userName(q.User)
	if user == "" || len(q.To) == 0 {
		return console.Explanation{},
			console.Invalid(fmt.Sprintf("the gate %s takes mail: name a user and a recipient (weir why --user ann --to "+
				"bob@example.com)", gt.listen))
	}
	source, err := sourceOf(q)
	if err != nil {
		return console.Explanation{}, err
	}
	if gt.kind == "smtp" {
		for _, address := range append([]string{q.Sender}, q.To...) {
			if err := smtpgate.CheckAddress(address); err != nil && address != "" && address != nullSender {
				return console.Explanation{}, console.Invalid(fmt.Sprintf("the gate %s does not take %q: %v (write "+
					"bob@example.com)", gt.listen, address, err))
			}
		}
	}
	sender := q.Sender
	switch sender {
	case "":
		sender = user
	case nullSender:
		sender = ""
	}
	ev := weir.Event{
		Time: b.clock.Now(), Source: source, Account: user, Plan: q.Plan, Kind: smtpgate.KindMail, Cost: 1,
		Message: &weir.Message{User: user, Recipients: q.To},
	}
	if gt.kind == "smtp" {
		ev.Client = smtpgate.ClientMark + user
	}
	steps, verdict := gt.explain(&ev, gt.chain)
	if verdict.Verdict < weir.Challenge {
		each := ev
		each.Cost = int64(len(q.To)) // all of them together
		more, other := gt.each.Explain(&each)
		steps = append(steps, slices.DeleteFunc(more, func(s policy.Step) bool { return s.Throttle == config.Bans })...)
		if other.Verdict > verdict.Verdict {
			verdict = other
		}
	}
	e := explanation(steps, verdict)
	e.Gate = gt.listen
	ctx, cancel := context.WithTimeout(context.Background(), notePatience)
	defer cancel()
	foreseen, err := b.post.Foresee(ctx, ev.Time, gt.post.Name, user, sender, q.To)
	if err != nil {
		return console.Explanation{}, err
	}
	for _, f := range foreseen {
		for i := range f.Figures {
			f.Figures[i].By = f.Throttle
		}
		e.Steps = append(e.Steps, console.Step{
			Throttle: f.Throttle, Shadow: f.Shadow, Verdict: f.Verdict, Reason: f.Reason, Text: f.Text,
			Rules: console.Rules(f.Figures),
		})
		if !f.Shadow && f.Verdict > e.Verdict {
			e.Verdict, e.By, e.Text = f.Verdict, f.Throttle, fmt.Sprintf("%s by %s: %s", f.Verdict, f.Throttle, f.Text)
		}
	}
	return e, nil
}

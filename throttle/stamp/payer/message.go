package payer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/identify"
	"weir/throttle/stamp"
)

// Recipient returns the form of an address that stamps are made for, as identify.Recipient does.
func Recipient(address string) (string, error) {
	r, err := identify.Recipient(address)
	if err != nil {
		return "", fmt.Errorf("%w: %q; write name@example.com", ErrAddress,
			address[:min(len(address), identify.MaxRecipient)])
	}
	return r, nil
}

// recipients brings a list of addresses into that form, each once.
func recipients(list []string) ([]string, error) {
	var all []string
	for _, address := range list {
		r, err := Recipient(address)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return once(all)
}

// once drops repeated recipients. No recipient at all, or too many, is an error.
func once(all []string) ([]string, error) {
	known := map[string]bool{}
	all = slices.DeleteFunc(all, func(r string) bool {
		before := known[r]
		known[r] = true
		return before
	})
	switch {
	case len(all) == 0:
		return nil, ErrNoRecipient
	case len(all) > MaxRecipients:
		return nil, ErrRecipients
	}
	return all, nil
}

// MailPayment is what the stamps of a mail took.
type MailPayment struct {
	Recipients []string // who has a stamp now
	Replaced   int      // stamps that were there before
	Algorithm  stamp.Algorithm
	Work       stamp.Work // of each stamp
	Operations stamp.Work // of all of them, about
	Took       time.Duration
}

// Stamp makes a stamp for each recipient, by the parameters that a server on the way publishes. to are the recipients
// of the envelope; without any, those of the header. The stamps replace those that were there. Options.MaxTime is for
// all of them together. When it fails, the mail is as before.
func (m *Mail) Stamp(ctx context.Context, now time.Time, params stamp.MailParams, to []string, o Options) (MailPayment,
	error) {
	p := MailPayment{Algorithm: params.Algorithm, Work: params.Work}
	var err error
	if len(to) == 0 {
		p.Recipients, err = m.Recipients()
	} else {
		p.Recipients, err = recipients(to)
	}
	if err != nil {
		return p, err
	}
	// The seeds of this hour and of the one before are honoured. A clock that is behind does no harm.
	if params.Hour < now.Unix()/3600-1 {
		return p, fmt.Errorf("%w: they are of %s", ErrStale,
			time.Unix(params.Hour*3600, 0).UTC().Format("2006-01-02 15:04 MST"))
	}
	binding := stamp.MailBinding{Message: stamp.BodyID(m.body)}
	var stamps []string
	one := Payment{Algorithm: params.Algorithm, Work: params.Work}
	total := params.Work * stamp.Work(len(p.Recipients))
	err = o.within(ctx, &one, len(p.Recipients), func(ctx context.Context, solve stamp.SolveOptions) error {
		tell := solve.Progress
		before, done := stamp.Work(0), stamp.Work(0)
		solve.Progress = func(d, _ stamp.Work) {
			done = d
			tell(before+d, total)
		}
		for _, r := range p.Recipients {
			binding.Recipient, done = r, 0
			s, err := stamp.MailStamp(ctx, params, binding, solve)
			if err != nil {
				return err
			}
			stamps = append(stamps, s)
			before += done
		}
		return nil
	})
	p.Took, p.Operations = one.Took, one.Operations
	if err != nil {
		return p, err
	}
	p.Replaced = m.remove(strings.ToLower(stamp.MailHeader))
	m.stamps = stamps
	return p, nil
}

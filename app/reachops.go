package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"weir/console"
	"weir/identify"
	"weir/mail/spool"
	"weir/store"
)

// A reachOps is the reach throttles as operators work them.
type reachOps struct{ *App }

var _ console.Reach = reachOps{}

// Reach returns the reach throttles, or nil where there are none.
func (b backend) Reach() console.Reach {
	if b.post.Spool == nil || !hasReach(b.current.Load().cfg) {
		return nil
	}
	return reachOps(b)
}

func (d reachOps) now() time.Time { return d.opts.Clock.Now() }

// throttle finds a reach throttle by its name. Without one, there must be only one.
func (d reachOps) throttle(name string) (*spool.Reach, error) {
	all := d.current.Load().reaches()
	var names []string
	for _, of := range all {
		if name == of.Name {
			return of, nil
		}
		names = append(names, of.Name)
	}
	switch list := strings.Join(names, ", "); {
	case name == "" && len(all) == 1:
		return all[0], nil
	case name == "":
		return nil, console.Invalid("which throttle? One of " + list)
	default:
		return nil, console.NotFound(fmt.Sprintf("there is no reach throttle %q; one of %s", name, list))
	}
}

func (d reachOps) Flagged(ctx context.Context, limit int) ([]console.ReachView, error) {
	found, err := d.post.FlaggedUsers(ctx, d.now(), limit)
	return reachViews(found, ""), err
}

func reachViews(found []spool.ReachStanding, throttle string) (list []console.ReachView) {
	for i := range found {
		if throttle == "" || found[i].Throttle == throttle {
			list = append(list, reachView(&found[i]))
		}
	}
	return list
}

func reachView(s *spool.ReachStanding) console.ReachView {
	v := console.ReachView{Throttle: s.Throttle, User: s.User, Flagged: s.Flagged, Shadow: s.Shadow, Since: s.Since,
		Why: s.Why, Holds: s.Holds, Exempt: s.Exempt,
		Recipients: int64(math.Round(s.Count)), First: s.First, Windows: []console.ReachWindow{}, Bytes: s.Bytes,
		Problem: s.Problem}
	for _, f := range s.Figures {
		v.Windows = append(v.Windows, console.ReachWindow{Window: f.Window.String(), New: rounded(f.New),
			Limit: rounded(f.Limit)})
	}
	return v
}

// rounded leaves as many digits as an estimate is worth.
func rounded(v float64) float64 { return math.Round(v*100) / 100 }

func (d reachOps) ReachOf(ctx context.Context, user, throttle string) ([]console.ReachView, error) {
	if throttle != "" {
		if _, err := d.throttle(throttle); err != nil {
			return nil, err
		}
	}
	_, list, err := d.known(ctx, user, throttle)
	if err == nil && len(list) == 0 {
		err = console.NotFound(fmt.Sprintf("nothing is known of %q: they have written to nobody", user))
	}
	return list, err
}

// known finds a user. Gates for mail and clients of the decision API know them by the same name.
func (d reachOps) known(ctx context.Context, user, throttle string) (name string, list []console.ReachView,
	err error) {
	name = d.userName(user)
	found, err := d.post.ReachStandings(ctx, d.now(), name)
	return name, reachViews(found, throttle), err
}

// Flag flags a user. An unknown name is likely to be misspelt.
func (d reachOps) Flag(ctx context.Context, by, user, throttle string) (v console.ReachView, err error) {
	of, err := d.throttle(throttle)
	if err != nil {
		return v, err
	}
	name, list, err := d.known(ctx, user, of.Name)
	if err != nil {
		return v, err
	}
	if _, address := identify.ParseAddressUser(name); len(list) == 0 && !address {
		if _, err := d.post.User(ctx, name); errors.Is(err, store.ErrNotFound) {
			return v,
				console.NotFound(fmt.Sprintf("nothing is known of %q: there is no such user, and nothing was sent "+
					"under this name", user))
		} else if err != nil {
			return v, err
		}
	}
	switch {
	case of.Rules.Exempt(name):
		return v, console.Rejected(fmt.Sprintf("%s is exempt from %s (exempt: in the configuration of the throttle)",
			name, of.Name))
	case of.Shadow():
		return v, console.Rejected(fmt.Sprintf("%s is in shadow: nobody is flagged (weir shadow off %s ends that)",
			of.Name, of.Name))
	}
	if err := d.post.FlagReach(ctx, d.now(), by, of.Name, name); err != nil {
		return v, err
	}
	return d.after(ctx, of, name)
}

func (d reachOps) Clear(ctx context.Context, by, user, throttle string) (v console.ReachView, err error) {
	of, err := d.throttle(throttle)
	if err != nil {
		return v, err
	}
	list, err := d.ReachOf(ctx, user, of.Name)
	if err != nil {
		return v, err
	}
	if v = list[0]; !v.Flagged && v.Problem == "" {
		return v, console.Rejected(fmt.Sprintf("%s is not flagged by %s", v.User, of.Name))
	}
	if err := d.post.ClearReach(ctx, d.now(), by, of.Name, v.User); err != nil {
		return v, err
	}
	return d.after(ctx, of, v.User)
}

func (d reachOps) after(ctx context.Context, of *spool.Reach, user string) (v console.ReachView, err error) {
	found, err := d.post.ReachStandings(ctx, d.now(), user)
	if list := reachViews(found, of.Name); len(list) > 0 {
		return list[0], err
	}
	return console.ReachView{Throttle: of.Name, User: user, Windows: []console.ReachWindow{}}, err
}

func (d reachOps) Usual(_ context.Context, throttle string) (u console.ReachUsual, err error) {
	of, err := d.throttle(throttle)
	if err != nil {
		return u, err
	}
	u = console.ReachUsual{Throttle: of.Name, Threshold: of.Rules.Options().Threshold.String(),
		Cohorts: []console.ReachCohort{}}
	for _, c := range of.Population.Cohorts(of.Rules, d.now()) {
		u.Cohorts = append(u.Cohorts, console.ReachCohort{Window: c.Window.String(), Age: c.Age, Size: c.Size,
			Samples: c.Samples,
			Usual:   rounded(c.Usual), Limit: rounded(c.Limit)})
	}
	return u, nil
}

package console

import (
	"context"
	"testing"

	"weir/notify"
)

func (b *backend) NotifyTargets() []notify.Stats { return b.told }

func (b *backend) TryNotify(_ context.Context, by string) (all []notify.Result) {
	for _, s := range b.told {
		all = append(all, notify.Result{Target: s.Target, Error: s.Error})
	}
	return all
}

// TestNotifyCalls: who is told is listed; a test reaches all of them, and is an error where there is nobody.
func TestNotifyCalls(t *testing.T) {
	b := &backend{}
	path := socketPath(t)
	control(t, path, b)
	c := NewClient(path)
	if all, err := NotifyListCall.Ask(t.Context(), c, None{}); err != nil || len(all.Targets) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := NotifyTestCall.Ask(t.Context(), c, None{}); err == nil || err.Error() != errNobodyTold.Msg {
		t.Errorf("nobody is told: %v", err)
	}
	b.told = []notify.Stats{{Target: "one", Sent: 3}, {Target: "two", Error: "away"}}
	if all, err := NotifyListCall.Ask(t.Context(), c,
		None{}); err != nil || len(all.Targets) != 2 || all.Targets[0].Sent != 3 {
		t.Errorf("%+v, %v", all, err)
	}
	want := []notify.Result{{Target: "one"}, {Target: "two", Error: "away"}}
	if all, err := NotifyTestCall.Ask(t.Context(), c,
		None{}); err != nil || len(all.Results) != 2 || all.Results[1] != want[1] {
		t.Errorf("%+v, %v", all, err)
	}
	if said := NotifyTestCall.said(&None{}, NotifyResults{want}); said != "1 test did not arrive: the list says why." {
		t.Error(said)
	}
}

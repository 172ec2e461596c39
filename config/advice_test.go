package config

import (
	"strings"
	"testing"

	"weir/lab/simulate"
	"weir/throttle/outbreak"
)

// TestAdviceIsAConfiguration: what the simulator recommends can be written into a configuration as it stands.
func TestAdviceIsAConfiguration(t *testing.T) {
	p, err := new(outbreak.Options).Params("", "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate.NewReplay(simulate.ReplayOptions{Params: p, Share: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e := range simulate.GenerateLog(20, 5) {
		if err := r.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	advice := r.Study().Advice
	c,
		err := Parse("advice.yaml",
		[]byte("smtp: [{listen: '127.0.0.1:2525', next_hop: 127.0.0.1:25, throttles: [outgoing]}]\n"+advice.Config))
	if err != nil {
		t.Fatalf("%v\n%s", err, advice.Config)
	}
	o := c.Throttles["outgoing"].Mail
	got, err := o.Params("", "")
	if err != nil || got.Stop != advice.Params.Stop || got.MaxMSlack != advice.Params.MaxMSlack ||
		got.WorkingSet != advice.Params.WorkingSet {
		t.Errorf("%+v, %v; the advice is %+v", got, err, advice.Params)
	}
	if !strings.Contains(advice.Config, "throttles:") {
		t.Error(advice.Config)
	}
}

package console

import (
	"encoding/json"
	"testing"
	"time"

	"weir"
)

func TestRulesAreReadable(t *testing.T) {
	rules := Rules([]weir.Figure{{Rule: "a", Unit: "requests", Limit: 5, Remaining: 2,
		Window: weir.Window(1500 * time.Millisecond)},
		{Rule: "b", Unit: "requests", Limit: 5, Remaining: 2, Window: weir.NewWindow(31*24*time.Hour, weir.Month)}})
	got, err := json.Marshal(rules)
	if want := `[{"rule":"a","unit":"requests","limit":5,"remaining":2,"window_seconds":1.5,"per":"1.5s"},{"rule":"b","unit":"requests","limit":5,"remaining":2,"window_seconds":2678400,"per":"month"}]`; err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
}

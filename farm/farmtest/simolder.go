package farmtest

import (
	"encoding/json"

	"weir/farm"
)

// Older makes a node speak as one of minor version 0: its heartbeats say neither what its configuration is nor what it
// has sent.
func Older(bus farm.Bus, secrets [][]byte) (farm.Bus, error) {
	sealer, err := farm.NewSealer(secrets)
	return &older{bus, sealer}, err
}

type older struct {
	farm.Bus
	sealer *farm.Sealer
}

func (o *older) Send(topic string, msg []byte) error {
	if topic != "farm.heartbeat" {
		return o.Bus.Send(topic, msg)
	}
	purpose := farm.Purpose{Topic: topic}
	opened, err := o.sealer.Open(purpose, msg)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(opened.Payload, &fields); err != nil {
		return err
	}
	was := struct {
		Minor   int    `json:"minor"`
		Version any    `json:"version"`
		Raw     uint64 `json:"raw"`
	}{0, fields["version"], uint64(fields["raw"].(float64))} // microseconds fit
	payload, err := json.Marshal(was)
	if err != nil {
		return err
	}
	if msg, err = o.sealer.Seal(purpose, opened.From, opened.Seq, payload); err != nil {
		return err
	}
	return o.Bus.Send(topic, msg)
}

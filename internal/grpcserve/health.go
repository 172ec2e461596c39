package grpcserve

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// A healthMethod is one of grpc.health.v1.Health, whose messages are so small that they are read and written here.
type healthMethod uint8

const (
	noHealth healthMethod = iota
	healthCheck
	healthWatch
	healthList
)

var healthMethods = map[string]healthMethod{
	"/grpc.health.v1.Health/Check": healthCheck,
	"/grpc.health.v1.Health/Watch": healthWatch,
	"/grpc.health.v1.Health/List":  healthList,
}

// The states of a service.
const (
	healthServing    = 1
	healthNotServing = 2
	healthUnknown    = 3
)

// health is the state of a service.
func (s *Server) health(service string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !slices.Contains(s.o.Services, service):
		return healthUnknown
	case s.unhealthy:
		return healthNotServing
	}
	return healthServing
}

// StopHealth says to those who ask that nothing serves any more. Who watches is told, and the watch ends.
func (s *Server) StopHealth() {
	s.mu.Lock()
	s.unhealthy = true
	all := s.list()
	s.mu.Unlock()
	for _, c := range all {
		c.mu.Lock()
		for _, st := range c.streams {
			if st.watching {
				c.endWatch(st)
			}
		}
		c.mu.Unlock()
		go c.flush()
	}
}

// tellHealth answers a call about health.
func (c *conn) tellHealth(s *stream, message []byte) {
	service, ok := serviceOf(message)
	if !ok {
		c.reply(s, nil, status.Error(codes.Internal, "the message is malformed"))
		return
	}
	state := c.server.health(service)
	switch {
	case s.health == healthList:
		c.reply(s, c.server.appendHealthList(make([]byte, messageHead)), nil)
	case s.health == healthCheck && state == healthUnknown:
		c.reply(s, nil, status.Error(codes.NotFound, "unknown service"))
	case s.health == healthCheck:
		c.reply(s, appendHealth(make([]byte, messageHead), state), nil)
	default:
		c.begin(s)
		s.watching = true
		c.tellWatch(s, state)
		if c.server.stopped() && c.streams[s.id] == s {
			c.endWatch(s)
		}
	}
}

func (s *Server) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unhealthy
}

// tellWatch tells who watches a state.
func (c *conn) tellWatch(s *stream, state uint64) {
	if rest := c.send(s, messageOf(appendHealth(make([]byte, messageHead), state))); len(rest) > 0 {
		c.stall(s, rest, nil)
	}
}

// endWatch tells who watches that nothing serves any more, and ends the watch.
func (c *conn) endWatch(s *stream) {
	s.watching = false
	if c.tellWatch(s, healthNotServing); c.streams[s.id] == s {
		c.replyError(s, status.New(codes.Canceled, "the server stops"))
	}
}

// serviceOf reads a HealthCheckRequest.
func serviceOf(message []byte) (service string, ok bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return "", false
		}
		message = message[n:]
		if number == 1 && kind == protowire.BytesType {
			var b []byte
			if b, n = protowire.ConsumeBytes(message); n >= 0 {
				service = string(b)
			}
		} else {
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return "", false
		}
		message = message[n:]
	}
	return service, true
}

// appendHealth appends a HealthCheckResponse.
func appendHealth(to []byte, state uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, 1, protowire.VarintType), state)
}

// appendHealthList appends a HealthListResponse: a map from service to HealthCheckResponse.
func (s *Server) appendHealthList(to []byte) []byte {
	for _, service := range s.o.Services {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), service)
		entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType),
			appendHealth(nil, s.health(service)))
		to = protowire.AppendBytes(protowire.AppendTag(to, 1, protowire.BytesType), entry)
	}
	return to
}

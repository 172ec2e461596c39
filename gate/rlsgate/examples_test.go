package rlsgate

// The documented examples of envoyproxy/ratelimit, and what their documentation does not show: the files, a request
// after the other, and the answers. TestExamples asks weir alone; TestPeer asks the original the same, with longer
// units.
var examples = []struct {
	name  string
	file  string
	steps []step
}{
	{"1: values", `
domain: mongo_cps
descriptors:
  - key: database
    value: users
    rate_limit: {unit: second, requests_per_unit: 500}
  - key: database
    value: default
    rate_limit: {unit: second, requests_per_unit: 500}
`, []step{
		{"database=users", "ok 500/second 499"},
		{"database=users +499", "ok 500/second 0"},
		{"database=users", "over 500/second 0"},
		{"database=default", "ok 500/second 499"},
		{"database=other", "ok"},
		{"database=users,more=x", "ok"},
		{"other=users", "ok"},
	}},
	{"2: nested", `
domain: messaging
descriptors:
  # Only allow 5 marketing messages a day
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit:
          unit: day
          requests_per_unit: 5
  # Only allow 100 messages a day to any unique phone number
  - key: to_number
    rate_limit:
      unit: day
      requests_per_unit: 100
`, []step{
		{"message_type=marketing,to_number=2061111111; to_number=2061111111", "ok 5/day 4, ok 100/day 99"},
		{"message_type=marketing,to_number=2061111111 +4; to_number=2061111111", "ok 5/day 0, ok 100/day 98"},
		{"message_type=marketing,to_number=2061111111; to_number=2061111111", "over 5/day 0, ok 100/day 97"},
		{"message_type=marketing,to_number=2062222222; to_number=2062222222", "ok 5/day 4, ok 100/day 99"},
		{"message_type=marketing", "ok"},
		{"message_type=other,to_number=2061111111", "ok"},
		{"to_number=2061111111", "ok 100/day 96"},
	}},
	{"3: the most specific", `
domain: edge_proxy_per_ip
descriptors:
  - key: remote_address
    rate_limit:
      unit: second
      requests_per_unit: 10
  # Black list IP
  - key: remote_address
    value: 50.0.0.5
    rate_limit:
      unit: second
      requests_per_unit: 0
`, []step{
		{"remote_address=50.0.0.1", "ok 10/second 9"},
		{"remote_address=50.0.0.2", "ok 10/second 9"},
		{"remote_address=50.0.0.5 +0", "ok 0/second 0"},
		{"remote_address=50.0.0.5", "over 0/second 0"},
		{"remote_address=50.0.0.5 +0", "over 0/second 0"},
		{"remote_address=", "ok 10/second 9"},
	}},
	{"4: depth", `
domain: example4
descriptors:
  - key: key
    value: value
    rate_limit:
      requests_per_unit: 300
      unit: second
  - key: other
    value: value
    descriptors:
      - key: subkey
        rate_limit:
          requests_per_unit: 300
          unit: second
`, []step{
		{"key=value,subkey=subvalue", "ok"},
		{"key=value", "ok 300/second 299"},
		{"other=value,subkey=subvalue", "ok 300/second 299"},
		{"other=value,subkey=x,more=y", "ok"},
		{"other=value", "ok"},
		{"", "ok"},
	}},
	{"5: unlimited", `
domain: internal
descriptors:
  - key: ldap
    rate_limit:
      unlimited: true
  - key: azure
    rate_limit:
      unit: minute
      requests_per_unit: 100
`, []step{
		{"ldap=x", "ok unlimited 4294967295"},
		{"azure=x; ldap=x", "ok 100/minute 99, ok unlimited 4294967295"},
		{"azure=x +1000000", "over 100/minute 0"},
		{"azure=x", "over 100/minute 0"},
	}},
	{"6: shadow", `
domain: example6
descriptors:
  - key: service
    descriptors:
      - key: user
        value: user-a
        rate_limit:
          requests_per_unit: 10
          unit: second
        shadow_mode: true
      - key: user
        value: user-b
        rate_limit:
          requests_per_unit: 20
          unit: second
`, []step{
		{"service=auth-service,user=user-a +9", "ok 10/second 1"},
		{"service=auth-service,user=user-a +9", "ok 10/second 0"},
		{"service=auth-service,user=user-a", "ok 10/second 0"},
		{"service=auth-service,user=user-b +19", "ok 20/second 1"},
		{"service=auth-service,user=user-b +2", "over 20/second 0"},
		{"service=auth-service,user=user-b", "over 20/second 0"},
		{"service=other,user=user-b; service=auth-service,user=user-a", "ok 20/second 19, ok 10/second 0"},
		{"service=auth-service,user=user-c", "ok"},
	}},
	{"7: replaces", `
domain: example7
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - key: user
        value: bkthomps
        rate_limit:
          name: specific_limit
          requests_per_unit: 5
          unit: second
  - key: key_2
    value: value_2
    descriptors:
      - key: user
        value: bkthomps
        rate_limit:
          replaces:
            - name: specific_limit
          requests_per_unit: 10
          unit: second
`, []step{
		{"key_1=value_1,user=bkthomps", "ok 5/second 4 specific_limit"},
		{"key_2=value_2,user=bkthomps", "ok 10/second 9"},
		{"key_1=value_1,user=bkthomps; key_2=value_2,user=bkthomps", "ok, ok 10/second 8"},
		{"key_2=value_2,user=bkthomps; key_1=value_1,user=bkthomps", "ok 10/second 7, ok"},
		{"key_1=value_1,user=bkthomps", "ok 5/second 3 specific_limit"},
	}},
	{"8: a default beside a value", `
domain: example8
descriptors:
  - key: key1
    detailed_metric: true
    rate_limit:
      unit: minute
      requests_per_unit: 10
  - key: key1
    value: value1
    rate_limit:
      unit: minute
      requests_per_unit: 20
`, []step{
		{"key1=unspecified_value", "ok 10/minute 9"},
		{"key1=unspecified_value2", "ok 10/minute 9"},
		{"key1=value1", "ok 20/minute 19"},
		{"key1=unspecified_value", "ok 10/minute 8"},
	}},
	{"9: wildcards", `
domain: example9
descriptors:
  - key: key1
    value: value*
    rate_limit:
      unit: minute
      requests_per_unit: 20
  - key: key2
    value: va*
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: key2
    value: value*
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: key2
    value: value1
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: key2
    rate_limit: {unit: minute, requests_per_unit: 4}
  - key: open*
    rate_limit: {unit: minute, requests_per_unit: 5}
`, []step{
		{"key1=value1", "ok 20/minute 19"},
		{"key1=value2", "ok 20/minute 19"},
		{"key1=value", "ok 20/minute 19"},
		{"key1=val", "ok"},
		{"key1=value*", "ok 20/minute 19"},
		{"key2=value1", "ok 3/minute 2"},
		{"key2=value2", "ok 1/minute 0"},
		{"key2=other", "ok 4/minute 3"},
		{"opened=x", "ok 5/minute 4"},
		{"openly=x", "ok 5/minute 4"},
	}},
	{"10: values in metrics", `
domain: example10
descriptors:
  - key: route
    value_to_metric: true
    descriptors:
      - key: http_method
        value_to_metric: true
        descriptors:
          - key: subject_id
            rate_limit:
              unit: minute
              requests_per_unit: 60
  - key: user
    value_to_metric: true
    descriptors:
      - key: action
        value: read*
        value_to_metric: true
        descriptors:
          - key: resource
            rate_limit:
              unit: minute
              requests_per_unit: 100
`, []step{
		{"route=api,http_method=GET,subject_id=123", "ok 60/minute 59"},
		{"route=web,http_method=POST,subject_id=456", "ok 60/minute 59"},
		{"route=api,http_method=GET,subject_id=123", "ok 60/minute 58"},
		{"user=alice,action=readfile,resource=documents", "ok 100/minute 99"},
		{"user=alice,action=write,resource=documents", "ok"},
	}},
	{"11: shared thresholds", `
domain: example11
descriptors:
  - key: files
    value: files/*
    share_threshold: true
    rate_limit:
      unit: hour
      requests_per_unit: 10
  - key: files_no_share
    value: files_no_share/*
    share_threshold: false
    rate_limit:
      unit: hour
      requests_per_unit: 10
  - key: route
    value: api/*
    share_threshold: true
    value_to_metric: true
    descriptors:
      - key: method
        rate_limit:
          unit: minute
          requests_per_unit: 60
`, []step{
		{"files=files/a.pdf +5", "ok 10/hour 5"},
		{"files=files/b.csv +5", "ok 10/hour 0"},
		{"files=files/c.txt", "over 10/hour 0"},
		{"files_no_share=files_no_share/a.pdf +10", "ok 10/hour 0"},
		{"files_no_share=files_no_share/a.pdf", "over 10/hour 0"},
		{"files_no_share=files_no_share/b.csv", "ok 10/hour 9"},
		{"route=api/v1,method=GET", "ok 60/minute 59"},
		{"route=api/v2,method=GET", "ok 60/minute 58"},
		{"route=api/v2,method=PUT", "ok 60/minute 59"},
	}},
	{"beyond the limit", `
domain: beyond
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: quota
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
`, []step{
		{"user=a +8", "ok 10/hour 2"},
		{"user=a +0", "ok 10/hour 2"},
		{"user=a +5", "over 10/hour 0"}, // and counted
		{"user=a", "over 10/hour 0"},
		{"user=a +0", "over 10/hour 0"},
		{"user=b +10", "ok 10/hour 0"},
		{"user=b +0", "ok 10/hour 0"},
		{"user=b; user=b +0", "over 10/hour 0, over 10/hour 0"},
		{"user=c; user=c; user=c", "ok 10/hour 9, ok 10/hour 8, ok 10/hour 7"},
		{"user=d limit=3/hour", "ok 3/hour 2"},
		{"user=d", "ok 10/hour 8"}, // the same counter
		{"user=d limit=3/hour +2", "over 3/hour 0"},
		{"quota=x", "ok 1/hour 0"},
		{"quota=x; user=e", "ok 1/hour 0, ok 10/hour 9"},
	}},
	{"keys and values in one", `
domain: joined
descriptors:
  - key: a
    value: b_c
    rate_limit: {unit: hour, requests_per_unit: 10}
`, []step{
		{"a=b_c", "ok 10/hour 9"},
		{"a_b=c", "ok 10/hour 8"},
	}},
}

// A step is a request, with descriptors between semicolons, and the answer.
type step struct{ ask, want string }

package console

func OpenAPI([]*Call) []byte { return nil }

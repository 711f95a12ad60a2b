package lines

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"attestd/chain/decision"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

// OCSFVersion is the version of the OCSF schema that events name and follow.
const OCSFVersion = "1.3.0"

// OCSF appends the event of a line (https://schema.ocsf.io/1.3.0), with the line as
// unmapped.attestd. It adds nothing that the line does not say, and what it says follows from the
// line alone, so that the check can make it again.
//
// A record is API Activity (6003) with the activity Other (99) under the name of its actionType:
// the log does not say whether an action creates, reads, updates or deletes. actor.app_name and
// src_endpoint.svc_name are the agent, api.operation is the actionType, and time is that of the
// record. A record with a decision has its outcome, in the attributes of the profile
// security_control: action_id and disposition_id are 1 and 1 (Allowed) for allow, 2 and 2 (Denied,
// Blocked) for deny and ask, since nobody had approved the request. A line that is no record is a
// Base Event (0).
func OCSF(dst, line []byte) ([]byte, error) {
	l, err := parseLine(line)
	if err != nil {
		return nil, err
	}
	at, err := time.Parse(time.RFC3339, l.at)
	if err != nil {
		return nil, err
	}
	agent, action, made, err := termsOf(&l)
	if err != nil {
		return nil, err
	}
	dst = append(dst, `{"metadata":{"version":"`+OCSFVersion+`",`...)
	if made != nil {
		dst = append(dst, `"profiles":["security_control"],`...)
	}
	dst = append(dst, `"product":{"name":"attestd","vendor_name":"attestd"},"log_version":"`+
		Format+`","tenant_uid":`...)
	dst = jcs.AppendString(dst, l.company)
	if l.kind != TypeKeys {
		dst = append(append(append(dst, `,"log_name":"`...), l.log...), `","sequence":`...)
		dst = strconv.AppendInt(dst, l.index, 10)
	}
	dst = append(dst, `,"uid":`...)
	dst = append(jcs.AppendString(dst, ID(l.kind, l.company, l.run, l.log, l.index, l.at, Signer(l.consistency.Checkpoint))), `},"time":`...)
	dst = strconv.AppendInt(dst, at.UnixMilli(), 10)
	dst = append(dst, `,"severity_id":1,"severity":"Informational","activity_id":99,"activity_name":`...)
	if l.kind != TypeRecord {
		dst = jcs.AppendString(dst, l.kind)
		dst = append(dst, `,"category_uid":0,"category_name":"Uncategorized","class_uid":0,"class_name":"Base Event","type_uid":99`...)
	} else {
		dst = jcs.AppendString(dst, action)
		dst = append(dst, `,"category_uid":6,"category_name":"Application Activity","class_uid":6003,"class_name":"API Activity","type_uid":600399,"actor":{"app_name":`...)
		dst = append(jcs.AppendString(dst, agent), `},"api":{"operation":`...)
		dst = append(jcs.AppendString(dst, action), `},"src_endpoint":{"svc_name":`...)
		dst = append(jcs.AppendString(dst, agent), '}')
	}
	switch {
	case made.Refuses():
		dst = append(dst, `,"action_id":2,"action":"Denied","disposition_id":2,"disposition":"Blocked"`...)
	case made != nil:
		dst = append(dst, `,"action_id":1,"action":"Allowed","disposition_id":1,"disposition":"Allowed"`...)
	}
	dst = append(dst, `,"unmapped":{"attestd":`...)
	return append(append(dst, line...), "}}"...), nil
}

// ID names a line, of at most 400 bytes. A record that comes again has the same, whichever run
// sends it, and so has a checkpoint of the same run and signer. index and log are not used for
// keys, at only for openings and keys, signer only for checkpoints, and run for all but records; ""
// for none.
func ID(kind, company, run, log string, index int64, at, signer string) (id string) {
	switch kind {
	case TypeRecord:
		return company + "/" + log + "/" + strconv.FormatInt(index, 10)
	case TypeKeys:
		id = company + "/keys/" + at
	case TypeCheckpoint:
		id = company + "/" + log + "/checkpoint/" + strconv.FormatInt(index, 10) + "/" + signer
	default:
		id = company + "/" + log + "/opening/" + strconv.FormatInt(index, 10) + "/" + at
	}
	if run != "" {
		id += "/" + run
	}
	return id
}

// Signer returns the key hash of the signature of a checkpoint's origin, in 8 hex digits, or "" if
// there is none.
func Signer(checkpoint []byte) string {
	c, n, err := tlog.ParseSignedCheckpoint(checkpoint)
	if err != nil {
		return ""
	}
	for _, s := range n.UnverifiedSigs {
		if s.Name == c.Origin {
			return fmt.Sprintf("%08x", s.Hash)
		}
	}
	return ""
}

// termsOf returns agentId, actionType and decision of the record in a line, if it has one.
func termsOf(l *line) (agent, action string, made *decision.Decision, err error) {
	if l.kind != TypeRecord {
		return "", "", nil, nil
	}
	var payload []byte
	err = strictjson.EachMember(l.record, maxDepth, func(name, value []byte) {
		if string(name) == "payload" {
			payload = value
		}
	})
	if err != nil {
		return "", "", nil, err
	}
	ok1, ok2 := false, false
	err = strictjson.EachMember(payload, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "agentId":
			agent, ok1 = strictjson.AsString(value)
		case "actionType":
			action, ok2 = strictjson.AsString(value)
		}
	})
	if err == nil && (!ok1 || !ok2) {
		err = errors.New("the record has no agentId or no actionType")
	}
	if err == nil {
		made, err = decision.Of(payload)
	}
	return agent, action, made, err
}

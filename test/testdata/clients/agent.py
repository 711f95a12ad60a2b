# Signs in as an agent with keys of each kind, signs a session, enrols the next key, and hears of one that it does not know. python3 agent.py URL KEY SPIFFE-ID
import sys
from attestd import Agent, AgentKey, Client, UnknownKeyError, generate_agent_key

url, credential, spiffe_id = sys.argv[1:]
admin, known = Client(url, credential), []

class Callback:  # a key that is elsewhere
    def __init__(self, key):
        self.jwk, self.sign = key.jwk, lambda message: key.sign(message)

for algorithm in "EdDSA", "ES256":
    for dpop in False, True:
        key, alarms = Callback(AgentKey(generate_agent_key(algorithm))), []
        known.append(admin.enrol_key("bot", key, label="test")["thumbprint"])
        made = lambda: Agent(key, spiffe_id, dpop=dpop, known=known, alarm=alarms.append)
        with Client(url, made()) as client:
            session = client.session()
            session.attest("a", {"é": [1.0, "\u2028"]})
            session.attest("a", None, end=True)
            known.append(client.enrol_key("bot", AgentKey(generate_agent_key()))["thumbprint"])
        assert not alarms, alarms
        stranger = admin.enrol_key("bot", AgentKey(generate_agent_key()))
        with Client(url, made()) as client:
            client.list_agent_keys("bot")
        assert isinstance(alarms[0], UnknownKeyError) and alarms[0].key["thumbprint"] == stranger["thumbprint"]
        known.append(stranger["thumbprint"])
        print(algorithm, str(dpop).lower(), "alarms", len(alarms))
admin.close()

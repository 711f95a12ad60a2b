// Lets verifier.html judge cases, as a person does: what is trusted goes into the fields, and the file is dropped.
async (cases) => {
  const seen = (look) => new Promise((done, refuse) => {
    const end = performance.now() + 20000;
    const again = () => {
      const found = look();
      if (found) done(found);
      else if (performance.now() > end) refuse(new Error(`nothing is seen: ${document.querySelector('main').innerText.slice(0, 500)}`));
      else setTimeout(again, 0);
    };
    again();
  });
  const enter = (name, value) => {
    const field = document.querySelector(`[name="${name}"]`);
    if (field.value === value) return;
    field.value = value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
  };
  const verdicts = [];
  for (const [i, { file, key, policy, agentKey, approvers, says }] of cases.entries()) {
    if (document.querySelector('[data-invalid]')) {
      enter('policy', '');
      await seen(() => !document.querySelector('[data-invalid]'));
    }
    enter('fingerprint', key);
    enter('policy', policy);
    enter('agentKey', agentKey);
    enter('approvers', (approvers ?? []).join('\n'));
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(file), (c) => c.charCodeAt(0))], `case ${i}`));
    document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
    const { dataset } = await seen(() => document.querySelector(`[data-file="case ${i}"], [data-invalid]`));
    const text = document.querySelector('main').textContent;
    // the page begins its sentences in upper case
    const heard = !says?.length ? '' : says.every((part) => text.includes(part.slice(1))) ? ' said' : ' not said';
    verdicts.push('invalid' in dataset ? 'usage' : `${dataset.verdict} ${dataset.code}`.trim() + heard);
  }
  return verdicts;
}

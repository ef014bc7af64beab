// Asks the browser for a new passkey or a signature and puts it into a field of the form, which is then sent as usual.
"use strict";
(() => {
  for (const note of document.querySelectorAll("[data-without-script]")) note.hidden = true;
  const form = document.querySelector("[data-passkey], [data-enrol]");
  if (!form) return;
  const button = form.querySelector("[data-sign]");
  const error = form.querySelector("[data-error]");
  const enrols = "enrol" in form.dataset;
  const options = JSON.parse(enrols ? form.dataset.enrol : form.dataset.passkey);
  const field = form.elements[enrols ? "credential" : "assertion"];

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const named = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }));

  function read(credential) {
    const { response } = credential;
    const answer = { clientDataJSON: text(response.clientDataJSON) };
    if (enrols) {
      answer.attestationObject = text(response.attestationObject);
    } else {
      answer.authenticatorData = text(response.authenticatorData);
      answer.signature = text(response.signature);
      answer.userHandle = response.userHandle ? text(response.userHandle) : null;
    }
    return JSON.stringify({ id: credential.id, rawId: text(credential.rawId), type: credential.type, response: answer, clientExtensionResults: {} });
  }

  const reasons = {
    NotAllowedError: "it was cancelled, took too long, or no device here has a passkey for this. Try again.",
    InvalidStateError: "this device already has a passkey for this page.",
  };

  async function sign() {
    const publicKey = { ...options, challenge: bytes(options.challenge) };
    if (enrols) {
      publicKey.user = { ...options.user, id: bytes(options.user.id) };
      publicKey.excludeCredentials = named(options.excludeCredentials);
      return read(await navigator.credentials.create({ publicKey }));
    }
    publicKey.allowCredentials = named(options.allowCredentials);
    return read(await navigator.credentials.get({ publicKey }));
  }

  if (!window.PublicKeyCredential) {
    error.textContent = "Passkeys don't work at this address. Open the page at http://localhost.";
    error.hidden = false;
    return;
  }
  button.disabled = false;
  form.addEventListener("submit", async (event) => {
    if (field.value) return;
    event.preventDefault();
    button.disabled = true;
    error.hidden = true;
    try {
      field.value = await sign();
      form.submit();
    } catch (problem) {
      error.textContent = `Nothing was signed: ${reasons[problem.name] || problem.message}`;
      error.hidden = false;
      button.disabled = false;
    }
  });
})();

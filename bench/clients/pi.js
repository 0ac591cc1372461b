// pi takes its providers' addresses from extensions: this one sends them to the gateway, and leaves compacting to it.
export default function (pi) {
  const url = process.env.LONGHAUL_URL;
  pi.registerProvider("anthropic", { baseUrl: url });
  pi.registerProvider("openai", { baseUrl: `${url}/v1` });
  pi.on("session_before_compact", () => ({ cancel: true }));
}

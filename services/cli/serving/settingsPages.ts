/**
 * The page of each provider where a webhook's URL is entered. `agents dev --tunnel` prints it with
 * the URL.
 */

/** By the provider's name in `services/webhooks/providers`. */
const SETTINGS_PAGES: Readonly<Record<string, string>> = {
  attio: "https://build.attio.com",
  bitbucket: "the repository's Repository settings > Webhooks",
  calcom: "https://app.cal.com/settings/developer/webhooks",
  calendly: "https://developer.calendly.com/api-docs (POST /webhook_subscriptions)",
  discord: "https://discord.com/developers/applications > Webhooks",
  docusign: "https://apps.docusign.com/admin/connect",
  elevenlabs: "https://elevenlabs.io/app/settings/webhooks",
  github:
    "https://github.com/<owner>/<repository>/settings/hooks/new, content type application/json",
  gitlab: "the project's Settings > Webhooks",
  hubspot: "your app's Webhooks at https://app.hubspot.com/developer",
  intercom: "https://app.intercom.com/a/apps/_/developer-hub > Webhooks",
  jira: "https://<site>.atlassian.net/plugins/servlet/webhooks",
  linear: "https://linear.app/settings/api",
  meta: "https://developers.facebook.com/apps > Webhooks",
  notion: "https://www.notion.so/my-integrations > Webhooks",
  pagerduty: "https://<subdomain>.pagerduty.com/integrations/webhooks",
  paypal: "https://developer.paypal.com/dashboard/applications",
  retell: "https://dashboard.retellai.com/settings/webhooks",
  sendgrid: "https://app.sendgrid.com/settings/mail_settings/webhook_settings",
  sentry: "https://sentry.io/settings/developer-settings",
  shopify: "https://admin.shopify.com/settings/notifications/webhooks",
  slack: "https://api.slack.com/apps > Event Subscriptions",
  square: "https://developer.squareup.com/apps > Webhooks",
  stripe: "https://dashboard.stripe.com/webhooks",
  svix: "the sender's Svix portal > Endpoints",
  twilio: "https://console.twilio.com (the number's Messaging or Voice settings)",
  typeform: "the form's Connect > Webhooks",
  vapi: "https://dashboard.vapi.ai > Server URL",
  vercel: "https://vercel.com/account/webhooks",
  workos: "https://dashboard.workos.com/webhooks",
  zendesk: "https://<subdomain>.zendesk.com/admin/apps-integrations/webhooks",
  zoom: "https://marketplace.zoom.us > your app > Feature",
};

export const settingsPage = (provider: string): string =>
  SETTINGS_PAGES[provider] ?? "your sender's configuration";
